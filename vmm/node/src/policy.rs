//! The policy and the pCPUs of a node, as they are told and as requests ask for them.

use crate::node::Node;
use crate::vm::NodeVm;
use std::sync::Arc;
use stile_api::{PcpusView, PolicyRequest, PolicyView, Problem, Reason};
use stile_config::{Mechanism, PolicyConfig};
use stile_host::CpuList;

impl Node {
    /// The policy.
    pub fn policy(&self) -> PolicyView {
        let policy = self.scheduling.read().policy.clone();
        PolicyView { policy: policy.to_string(), keys: policy }
    }

    /// The pCPUs.
    pub fn pcpus(&self) -> PcpusView {
        let pcpus = self.scheduling.read().pcpus.iter().collect();
        PcpusView { pcpus, available: self.available().iter().collect() }
    }

    /// The policy that a request asks for.
    pub fn wanted_policy(&self, request: &PolicyRequest) -> Result<PolicyConfig, Problem> {
        match (&request.policy, &request.keys) {
            // The schema does not tell which strings are policies, so one that is none fits it.
            (Some(policy), None) => policy.parse().map_err(|e| Problem::of(Reason::Conflict, "policy", &e)),
            (None, Some(keys)) => {
                let base = self.scheduling.read().policy.clone();
                let context = self.context();
                stile_config::policy_with(&base, keys, &context).map_err(|e| Problem::of_config("policy", &e))
            }
            _ => Err(Problem::new(Reason::Invalid, "one of `policy` and `keys` is expected").remedy(
                "`policy` is as --policy takes it, such as \"rsdl:rr_interval=3ms\"; `keys` are those of [policy]",
            )),
        }
    }

    /// The pCPUs of these numbers.
    pub fn wanted_pcpus(&self, pcpus: &[u32]) -> Result<CpuList, Problem> {
        let available = self.available();
        let accepted = format!("accepted are one or more of {available}");
        if pcpus.is_empty() {
            return Err(Problem::new(Reason::Invalid, "pcpus: a node needs one at least").remedy(accepted));
        }
        match pcpus.iter().find(|cpu| !available.contains(**cpu)) {
            Some(cpu) => {
                Err(Problem::new(Reason::Conflict, format!("pcpus: this process may not use a CPU {cpu}"))
                    .remedy(accepted))
            }
            None => Ok(pcpus.iter().copied().collect()),
        }
    }

    /// A policy with the mechanism that carries it out here, beside the VMs that there are.
    pub(crate) fn carried(&self, policy: &PolicyConfig) -> Result<PolicyConfig, Problem> {
        if policy.algorithm.is_in_kernel() {
            return Err(Problem::new(
                Reason::Conflict,
                format!("policy: a node cannot load `{policy}` into the kernel"),
            )
            .remedy("take another policy; `run` without --socket and `compare` have this one"));
        }
        let waits_inside = |vm: &Arc<NodeVm>| vm.machine().is_some_and(|machine| machine.waits_inside);
        let Some(vm) = self.vms().into_iter().find(waits_inside) else {
            return Ok(stile_assembly::carried_out(policy));
        };
        match policy.mechanism {
            _ if policy.algorithm.is_host() => Ok(stile_assembly::carried_out(policy)),
            Mechanism::Auto | Mechanism::Leases => Ok(PolicyConfig { mechanism: Mechanism::Leases, ..policy.clone() }),
            Mechanism::Executors => {
                let halts = format!(
                    "mechanism: executors cannot carry VM {}, whose vCPUs halt inside the host's kernel",
                    vm.name()
                );
                Err(Problem::new(Reason::Conflict, halts)
                    .remedy("take `leases` or `auto`, or start that VM anew with interrupts = \"user\""))
            }
        }
    }
}
