//! The ways to carry vCPUs: every domain and policy a test may want to try.

use crate::watched::Watched;
use std::fmt;
use std::sync::Arc;
use stile_sched::domain::executors::Executors;
use stile_sched::domain::host::{HostThreads, HostYield};
use stile_sched::domain::leases;
use stile_sched::lock::LockRules;
use stile_sched::policy::rsdl::{PoliteSwitches, Rsdl, RsdlConfig, YieldRule, wait_bound};
use stile_sched::policy::{Freelist, Policy};
use stile_sched::{Domain, Nanos};

/// More pCPUs than this would only let the guests run without competition.
const MOST_PCPUS: usize = 2;

/// A way to carry vCPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// A thread per vCPU, scheduled by the host.
    Host(HostYield),
    /// Executors with the policy `rsdl`.
    Rsdl(YieldRule),
    /// Executors with the policy `freelist`.
    Freelist,
    /// A thread per vCPU with the policy `rsdl`.
    RsdlLeases(YieldRule),
    /// A thread per vCPU with the policy `freelist`.
    FreelistLeases,
    /// As `RsdlLeases`, on one pCPU, whose slot needs no bus lock.
    OnePcpuLeases,
}

impl Carrier {
    /// The policy people get who choose none.
    pub fn default_policy() -> Self {
        Self::Rsdl(RsdlConfig::default().yield_rule)
    }

    /// All of them.
    pub fn all() -> [Self; 10] {
        [
            Self::Host(HostYield::Sched),
            Self::Host(HostYield::Ignore),
            Self::Rsdl(YieldRule::None),
            Self::Rsdl(YieldRule::Expire),
            Self::Rsdl(YieldRule::Polite(PoliteSwitches::default())),
            Self::Freelist,
            Self::RsdlLeases(YieldRule::Expire),
            Self::RsdlLeases(YieldRule::Polite(PoliteSwitches::default())),
            Self::FreelistLeases,
            Self::OnePcpuLeases,
        ]
    }

    /// One of each mechanism.
    pub fn mechanisms() -> [Self; 4] {
        [
            Self::Host(HostYield::Sched),
            Self::default_policy(),
            Self::RsdlLeases(RsdlConfig::default().yield_rule),
            Self::OnePcpuLeases,
        ]
    }

    /// A new domain on two pCPUs, or on as many as there are, which is watched if its policy promises anything.
    pub fn domain(self) -> Arc<dyn Domain> {
        let mut cpus = pcpus();
        if self == Self::OnePcpuLeases {
            cpus.truncate(1);
        }
        let slots = cpus.len();
        let config = |yield_rule| RsdlConfig { yield_rule, ..RsdlConfig::default() };
        let rsdl = |yield_rule| -> Box<dyn Policy> { Box::new(Rsdl::new(config(yield_rule), slots)) };
        let watched = |yield_rule, domain: Arc<dyn Domain>| -> Arc<dyn Domain> {
            let bound = move |me, others: &[_]| wait_bound(&config(yield_rule), me, others, slots);
            Arc::new(Watched::new(domain, Box::new(bound)))
        };
        let freelist = || Box::new(Freelist::new(Nanos::from_millis(6), cpus.len()));
        let (rules, switches) = (LockRules::default(), leases::Switches::default());
        let executors =
            |policy| Arc::new(Executors::new(&cpus, policy, rules).expect("this process may start threads and timers"));
        match self {
            Self::Host(yields) => Arc::new(HostThreads::new(&cpus, yields)),
            Self::Rsdl(yield_rule) => watched(yield_rule, executors(rsdl(yield_rule))),
            Self::Freelist => executors(freelist()),
            Self::RsdlLeases(yield_rule) => {
                watched(yield_rule, leases::start(&cpus, rsdl(yield_rule), rules, switches))
            }
            Self::FreelistLeases => leases::start(&cpus, freelist(), rules, switches),
            Self::OnePcpuLeases => {
                let yield_rule = RsdlConfig::default().yield_rule;
                watched(yield_rule, leases::start(&cpus, rsdl(yield_rule), rules, switches))
            }
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(HostYield::Sched) => f.write_str("host"),
            Self::Host(HostYield::Ignore) => f.write_str("host-noyield"),
            Self::Rsdl(YieldRule::None) => f.write_str("rsdl+none"),
            Self::Rsdl(YieldRule::Expire) => f.write_str("rsdl+expire"),
            Self::Rsdl(YieldRule::Polite(_)) => f.write_str("rsdl+polite"),
            Self::Freelist => f.write_str("freelist"),
            Self::RsdlLeases(yield_rule) => write!(f, "{}:leases", Self::Rsdl(*yield_rule)),
            Self::FreelistLeases => f.write_str("freelist:leases"),
            Self::OnePcpuLeases => f.write_str("rsdl:leases on one pCPU"),
        }
    }
}

/// The host CPUs that domains are made of.
pub fn pcpus() -> Vec<usize> {
    let allowed = stile::host::allowed_cpus().expect("the kernel tells a process its CPUs");
    allowed.iter().take(MOST_PCPUS).map(|cpu| cpu as usize).collect()
}
