//! How a node schedules: the policy with the mechanism that carries it out, and the pCPUs.

use crate::vm::NodeVm;
use std::sync::Arc;
use stile_api::{Problem, Reason, SchedulingRequest};
use stile_config::{Config, Mechanism, PolicyConfig};
use stile_host::CpuList;
use stile_sched::domain::handover::Handover;

/// How a node schedules.
#[derive(Debug, Clone)]
pub(crate) struct Scheduling {
    /// As it was asked for.
    pub(crate) policy: PolicyConfig,
    /// With the mechanism that carries it out.
    pub(crate) carried: PolicyConfig,
    pub(crate) pcpus: CpuList,
    /// The domain can hold caps.
    pub(crate) caps: bool,
}

/// What takes a change back.
#[derive(Clone)]
pub(crate) struct Undo {
    pub(crate) before: Scheduling,
    pub(crate) vms: Vec<(Arc<NodeVm>, SchedulingRequest)>,
}

impl Scheduling {
    /// That of a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        let carried = stile_assembly::carried_out(&config.policy);
        let (policy, pcpus) = (config.policy.clone(), config.host.pcpus.clone());
        Self { policy, carried, pcpus, caps: stile_assembly::has_caps(config) }
    }

    /// Its domain, without vCPUs.
    pub(crate) fn domain(&self) -> Result<Arc<dyn Handover>, Problem> {
        stile_assembly::successor(&self.carried, &self.pcpus, self.caps)
            .map_err(|e| Problem::of(Reason::Unsupported, "nothing was changed", &e))
    }

    /// The pCPUs as numbers.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        self.pcpus.iter().map(|cpu| cpu as usize).collect()
    }

    /// What carries vCPUs.
    pub(crate) fn mechanism(&self) -> &'static str {
        match self.carried.mechanism {
            _ if self.policy.algorithm.is_host() => "host",
            Mechanism::Leases => "leases",
            Mechanism::Executors | Mechanism::Auto => "executors",
        }
    }
}
