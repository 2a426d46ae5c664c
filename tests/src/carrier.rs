//! Carriers: every combination of domain and policy that a test may use.

use crate::watched::Watched;
use std::fmt;
use std::sync::Arc;
use stile_sched::attributes::Attributes;
use stile_sched::domain::executors::{self, Executors};
use stile_sched::domain::host::{HostThreads, HostYield};
use stile_sched::domain::leases;
use stile_sched::lock::LockRules;
use stile_sched::policy::rsdl::{PoliteSwitches, Rsdl, RsdlConfig, YieldRule, wait_bound};
use stile_sched::policy::{Capped, Freelist, Policy};
use stile_sched::{Domain, Nanos};

/// With more pCPUs the guests would run without competition.
const MOST_PCPUS: usize = 2;

/// A combination of mechanism and policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// A thread for each vCPU, scheduled by the host.
    Host(HostYield),
    /// Executors with the policy `rsdl`.
    Rsdl(YieldRule),
    /// Executors with the policy `freelist`.
    Freelist,
    /// The mechanism leases with the policy `rsdl`.
    RsdlLeases(YieldRule),
    /// The mechanism leases with the policy `freelist`.
    FreelistLeases,
    /// As `RsdlLeases`, on one pCPU, whose slot needs no bus lock.
    OnePcpuLeases,
}

impl Carrier {
    /// The default policy.
    pub fn default_policy() -> Self {
        Self::Rsdl(RsdlConfig::default().yield_rule)
    }

    /// All carriers.
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

    /// One carrier of each mechanism.
    pub fn mechanisms() -> [Self; 4] {
        [
            Self::Host(HostYield::Sched),
            Self::default_policy(),
            Self::RsdlLeases(RsdlConfig::default().yield_rule),
            Self::OnePcpuLeases,
        ]
    }

    /// A new domain on two pCPUs, or fewer if the process may use fewer. It is watched if its policy promises a bound.
    pub fn domain(self) -> Arc<dyn Domain> {
        self.domain_with(true, |policy, _| policy)
    }

    /// A new domain with or without spin detection.
    pub fn domain_that(self, spin_detection: bool) -> Arc<dyn Domain> {
        self.domain_with(spin_detection, |policy, _| policy)
    }

    /// A new domain that enforces caps; the host's scheduler does not.
    pub fn domain_with_caps(self) -> Arc<dyn Domain> {
        self.domain_with(true, |policy, slots| Box::new(Capped::new(policy, slots)))
    }

    fn domain_with(
        self,
        spin_detection: bool,
        around: fn(Box<dyn Policy>, usize) -> Box<dyn Policy>,
    ) -> Arc<dyn Domain> {
        let mut cpus = pcpus();
        if self == Self::OnePcpuLeases {
            cpus.truncate(1);
        }
        let slots = cpus.len();
        let config = |yield_rule| RsdlConfig { yield_rule, ..RsdlConfig::default() };
        let rsdl = |yield_rule| -> Box<dyn Policy> { around(Box::new(Rsdl::new(config(yield_rule), slots)), slots) };
        let freelist = || around(Box::new(Freelist::new(Nanos::from_millis(6), slots)), slots);
        let watched = |yield_rule, domain: Arc<dyn Domain>| -> Arc<dyn Domain> {
            let bound = move |me: Attributes, others: &[_]| {
                let held_back = me.group.map_or(Nanos::ZERO, |group| Nanos(2 * group.cap.period().0));
                wait_bound(&config(yield_rule), me, others, slots).map(|bound| bound + held_back)
            };
            Arc::new(Watched::new(domain, Box::new(bound)))
        };
        let rules = LockRules::default();
        let switches = leases::Switches { spin_detection, ..leases::Switches::default() };
        let executors = |policy| {
            let domain = Executors::new(&cpus, policy, rules, executors::Switches { spin_detection });
            Arc::new(domain.expect("this process may start threads and timers"))
        };
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
            Self::Host(HostYield::Ext) => f.write_str("ext"),
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

/// The host CPUs of the domains.
pub fn pcpus() -> Vec<usize> {
    let allowed = stile_host::allowed_cpus().expect("the kernel tells a process its CPUs");
    allowed.iter().take(MOST_PCPUS).map(|cpu| cpu as usize).collect()
}
