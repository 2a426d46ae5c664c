//! From a policy's configuration to the domain that carries it out.

use crate::config::{Algorithm, Mechanism, PolicyConfig, YieldRule};
use crate::host::{self, CpuList};
use std::sync::Arc;
use stile_sched::domain::executors::Executors;
use stile_sched::domain::host::{HostThreads, HostYield};
use stile_sched::domain::leases;
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
    let decides: Box<dyn Policy> = match policy.algorithm {
        Algorithm::Host => return Ok(Arc::new(HostThreads::new(&numbers, HostYield::Sched))),
        Algorithm::HostNoyield => return Ok(Arc::new(HostThreads::new(&numbers, HostYield::Ignore))),
        Algorithm::Freelist => {
            let freelist = Freelist::new(interval(policy), numbers.len());
            Box::new(if policy.affinity { freelist.with_affinity(host::topology(cpus)) } else { freelist })
        }
        Algorithm::Rsdl => Box::new(Rsdl::new(rsdl_config(policy), numbers.len())),
    };
    match mechanism(policy.mechanism, host::vcpus_move_freely()) {
        Carries::Executors => match Executors::new(&numbers, decides) {
            Ok(domain) => Ok(Arc::new(domain)),
            Err(source) => Err(CarrierError { cpus: cpus.clone(), source }),
        },
        Carries::Leases => Ok(leases::start(&numbers, decides, leases::Switches { ride: policy.ride })),
    }
}

/// A mechanism, chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carries {
    Executors,
    Leases,
}

/// The mechanism to take: executors switch without waking a thread, where the kernel lets vCPUs change threads.
fn mechanism(configured: Mechanism, vcpus_move_freely: bool) -> Carries {
    match configured {
        Mechanism::Executors => Carries::Executors,
        Mechanism::Leases => Carries::Leases,
        Mechanism::Auto if vcpus_move_freely => Carries::Executors,
        Mechanism::Auto => Carries::Leases,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executors_are_taken_where_vcpus_move_freely_and_leases_elsewhere_unless_configured() {
        assert_eq!(mechanism(Mechanism::Auto, true), Carries::Executors);
        assert_eq!(mechanism(Mechanism::Auto, false), Carries::Leases);
        assert_eq!(mechanism(Mechanism::Executors, false), Carries::Executors);
        assert_eq!(mechanism(Mechanism::Leases, true), Carries::Leases);
    }
}
