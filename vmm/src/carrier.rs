//! From a policy's configuration to the domain that carries it out.

use crate::config::{Algorithm, PolicyConfig, YieldRule};
use crate::host::CpuList;
use std::sync::Arc;
use stile_sched::domain::executors::Executors;
use stile_sched::domain::host::{HostThreads, HostYield};
use stile_sched::lock::LockRules;
use stile_sched::policy::rsdl::{self, RsdlConfig};
use stile_sched::policy::{Freelist, Policy, Rsdl};
use stile_sched::{Domain, Nanos};

/// The domain's threads could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a thread for each pCPU of {cpus}")]
pub struct CarrierError {
    cpus: CpuList,
    #[source]
    source: std::io::Error,
}

/// A domain on these host CPUs under this policy.
pub fn domain(policy: &PolicyConfig, cpus: &CpuList) -> Result<Arc<dyn Domain>, CarrierError> {
    let numbers: Vec<usize> = cpus.iter().map(|cpu| cpu as usize).collect();
    let lock = LockRules { lateral: policy.lock.lateral, adaptive: policy.lock.adaptive };
    let executors = |policy: Box<dyn Policy>| match Executors::new(&numbers, policy, lock) {
        Ok(domain) => Ok(Arc::new(domain) as Arc<dyn Domain>),
        Err(source) => Err(CarrierError { cpus: cpus.clone(), source }),
    };
    match policy.algorithm {
        Algorithm::Host => Ok(Arc::new(HostThreads::new(&numbers, HostYield::Sched))),
        Algorithm::HostNoyield => Ok(Arc::new(HostThreads::new(&numbers, HostYield::Ignore))),
        Algorithm::Freelist => executors(Box::new(Freelist::new(interval(policy), numbers.len()))),
        Algorithm::Rsdl => executors(Box::new(Rsdl::new(rsdl_config(policy), numbers.len()))),
    }
}

fn interval(policy: &PolicyConfig) -> Nanos {
    policy.rr_interval.duration().into()
}

fn rsdl_config(policy: &PolicyConfig) -> RsdlConfig {
    let yield_rule = match policy.yield_rule {
        YieldRule::None => rsdl::YieldRule::None,
        YieldRule::Expire => rsdl::YieldRule::Expire,
        YieldRule::Polite => rsdl::YieldRule::Polite(rsdl::PoliteSwitches {
            directed: policy.polite.directed,
            keep_place: policy.polite.keep_place,
            prefer_computing: policy.polite.prefer_computing,
            evict_for_peer: policy.polite.evict_for_peer,
            stay_with_running_peer: policy.polite.stay_with_running_peer,
            forgive: policy.polite.forgive,
            strict: policy.polite.strict,
        }),
    };
    RsdlConfig { rr_interval: interval(policy), yield_rule, affinity: policy.affinity }
}
