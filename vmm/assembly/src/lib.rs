//! Makes domains of configurations.
//!
//! [`domain_for`] makes the policy and the mechanism that a [`Config`] asks for, [`simulated`] makes them for the
//! simulator, and [`watch`] adds a watchdog. [`attributes`] and [`group`] give the scheduling attributes of a VM's
//! vCPUs. [`wait_bound`], [`starvation_bound`] and [`cap_bound`] give the longest time that a runnable vCPU may have to
//! wait.

pub mod watch;

use std::sync::Arc;
use stile_config::{Config, Mechanism, PolicyConfig, RunBy, Slots, VmClass, VmConfig};
use stile_host::CpuList;
use stile_sched::attributes::{Attributes, Cap, Group, GroupId};
use stile_sched::domain::executors::{self, Executors};
use stile_sched::domain::handover::Handover;
use stile_sched::domain::host::{HostThreads, HostYield};
use stile_sched::domain::leases;
use stile_sched::domain::switchable::Switchable;
use stile_sched::policy::{Capped, Policy};
use stile_sched::shards::ShardPlan;
use stile_sched::sim::host::{HostConfig, HostModel};
use stile_sched::{Class, Domain, Nanos, Nice, Topology};

/// The domain's threads could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a thread for each pCPU of {cpus}")]
pub struct AssemblyError {
    cpus: CpuList,
    #[source]
    source: std::io::Error,
}

impl AssemblyError {
    /// The error that no thread could be started for each of these CPUs.
    pub fn new(cpus: &CpuList, source: std::io::Error) -> Self {
        Self { cpus: cpus.clone(), source }
    }
}

/// Makes a domain on these host CPUs under this policy, without caps.
pub fn domain(policy: &PolicyConfig, cpus: &CpuList) -> Result<Arc<dyn Domain>, AssemblyError> {
    let policy = &carried_out(policy);
    match decides(policy, cpus.len(), &stile_host::topology(cpus)) {
        Ok(decides) => Ok(start(policy, cpus, decides)?),
        Err(yields) => Ok(Arc::new(HostThreads::new(&numbers(cpus), yields))),
    }
}

/// Makes a domain for this configuration, with caps if a VM has one.
pub fn domain_for(config: &Config) -> Result<Arc<dyn Domain>, AssemblyError> {
    let (policy, cpus) = (&config.policy, &config.host.pcpus);
    match decides_for(config) {
        Ok(decides) => Ok(start(policy, cpus, decides)?),
        Err(yields) => Ok(Arc::new(HostThreads::new(&numbers(cpus), yields))),
    }
}

/// Makes a domain on these host CPUs under this policy, with caps or without, that can go on with the vCPUs of another
/// one and give them back.
pub fn successor(policy: &PolicyConfig, cpus: &CpuList, caps: bool) -> Result<Arc<dyn Handover>, AssemblyError> {
    let policy = &carried_out(policy);
    match decides(policy, cpus.len(), &stile_host::topology(cpus)) {
        Ok(decides) => start(policy, cpus, if caps { decides.with_caps() } else { decides }),
        Err(yields) => Ok(Arc::new(HostThreads::new(&numbers(cpus), yields))),
    }
}

/// Like [`domain_for`], for a domain that can hand its vCPUs over to the host's scheduler. `None` if the host schedules
/// them anyway.
pub fn switchable_for(config: &Config) -> Result<Option<Arc<Switchable>>, AssemblyError> {
    let (policy, cpus) = (&config.policy, &config.host.pcpus);
    let Ok(decides) = decides_for(config) else { return Ok(None) };
    Ok(Some(Arc::new(Switchable::new(start(policy, cpus, decides)?, &numbers(cpus)))))
}

fn decides_for(config: &Config) -> Result<Decides, HostYield> {
    let (policy, cpus) = (&carried_out(&config.policy), &config.host.pcpus);
    let decides = decides(policy, cpus.len(), &stile_host::topology(cpus))?;
    Ok(if has_caps(config) { decides.with_caps() } else { decides })
}

/// Whether a VM of this configuration has a cap.
pub fn has_caps(config: &Config) -> bool {
    config.vms.iter().any(|vm| vm.cap.is_some())
}

fn numbers(cpus: &CpuList) -> Vec<usize> {
    cpus.iter().map(|cpu| cpu as usize).collect()
}

/// The policy as this host carries it out: with the mechanism that `auto` stands for.
pub fn carried_out(policy: &PolicyConfig) -> PolicyConfig {
    let mechanism = match mechanism(policy.mechanism, stile_host::vcpus_move_freely()) {
        Carries::Executors => Mechanism::Executors,
        Carries::Leases => Mechanism::Leases,
    };
    PolicyConfig { mechanism, ..policy.clone() }
}

/// Makes a domain that carries out this policy.
fn start(policy: &PolicyConfig, cpus: &CpuList, decides: Decides) -> Result<Arc<dyn Handover>, AssemblyError> {
    tracing::debug!(%policy, pcpus = %cpus, mechanism = ?policy.mechanism, "makes a domain");
    let numbers = numbers(cpus);
    let spin_detection = policy.spin_detection;
    match mechanism(policy.mechanism, stile_host::vcpus_move_freely()) {
        Carries::Executors => {
            let switches = executors::Switches { spin_detection };
            match Executors::in_shards(&numbers, decides.policies, decides.plan, policy.lock, switches) {
                Ok(domain) => Ok(Arc::new(domain)),
                Err(source) => Err(AssemblyError::new(cpus, source)),
            }
        }
        Carries::Leases => {
            let switches = leases::Switches {
                rt_boost: policy.rt_boost,
                steal: policy.steal,
                spin_detection,
                ..leases::Switches::default()
            };
            Ok(leases::start_in_shards(&numbers, decides.policies, decides.plan, policy.lock, switches))
        }
    }
}

/// A policy's state machines: an object for each shard of a domain.
pub struct Decides {
    /// Which slots make up a shard.
    pub plan: ShardPlan,
    /// An object for each shard.
    pub policies: Vec<Box<dyn Policy>>,
}

impl Decides {
    /// These policies in caps.
    pub fn with_caps(self) -> Self {
        let slots = |shard| {
            let slots = self.plan.slots(shard);
            slots.end.index() - slots.start.index()
        };
        let capped = |(shard, inner)| -> Box<dyn Policy> { Box::new(Capped::new(inner, slots(shard))) };
        let policies = self.plan.shards().zip(self.policies).map(capped).collect();
        Self { policies, plan: self.plan }
    }
}

/// Makes a policy's state machines for this many slots. The error is for policies that the host carries out: it gives
/// the meaning of a yield there.
pub fn decides(policy: &PolicyConfig, slots: usize, topology: &Topology) -> Result<Decides, HostYield> {
    let policy_of = match policy.algorithm.row().run_by {
        RunBy::Host(yields) => return Err(yields),
        RunBy::Stile(policy_of) => policy_of,
    };
    let plan = match policy.is_divided(slots) {
        true => ShardPlan::new(slots, policy.shard_pcpus.into(), topology),
        false => ShardPlan::one(slots),
    };
    let object = |shard| {
        let slots = plan.slots(shard);
        let (count, topology) = (slots.end.index() - slots.start.index(), topology.part(slots));
        policy_of(policy, Slots { count, topology, is_shard: plan.len() > 1 })
    };
    Ok(Decides { policies: plan.shards().map(object).collect(), plan })
}

/// A policy in a simulation.
pub struct Simulated {
    /// The policy's state machines.
    pub decides: Decides,
    /// Whether each vCPU has a thread of its own.
    pub threads: bool,
    /// Whether the pCPUs of a shard ask under one lock.
    pub locks: bool,
}

/// Like [`decides`], for a simulation. It models the host's scheduler with random numbers from this seed.
pub fn simulated(policy: &PolicyConfig, slots: usize, topology: &Topology, seed: u64) -> Simulated {
    match decides(policy, slots, topology) {
        Ok(decides) => Simulated { decides, threads: policy.mechanism == Mechanism::Leases, locks: true },
        Err(yields) => {
            let config = HostConfig { yields: yields == HostYield::Sched, seed, ..HostConfig::default() };
            let host = Box::new(HostModel::new(config, slots).with_topology(topology.clone()));
            let decides = Decides { plan: ShardPlan::one(slots), policies: vec![host] };
            Simulated { decides, threads: true, locks: false }
        }
    }
}

/// The mechanism of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carries {
    Executors,
    Leases,
}

/// The mechanism to use. Executors switch without waking a thread; they are used where the kernel lets vCPUs change
/// threads.
fn mechanism(configured: Mechanism, vcpus_move_freely: bool) -> Carries {
    match configured {
        Mechanism::Executors => Carries::Executors,
        Mechanism::Leases => Carries::Leases,
        Mechanism::Auto if vcpus_move_freely => Carries::Executors,
        Mechanism::Auto => Carries::Leases,
    }
}

/// The scheduling attributes of a VM's vCPUs.
pub fn attributes(vm: &VmConfig) -> Attributes {
    let class = match vm.class {
        VmClass::Normal => Class::Normal,
        VmClass::Batch => Class::Batch,
        VmClass::Idle => Class::Idle,
        VmClass::Rt => Class::Rt,
    };
    Attributes { nice: Nice::new(vm.nice).expect("the configuration was checked for its range"), class, group: None }
}

/// Makes a new group for a VM's vCPUs, if the VM has a cap.
pub fn group(vm: &VmConfig) -> Option<Group> {
    group_with(vm, GroupId::unique())
}

/// The group for a VM's vCPUs under this id, if the VM has a cap.
pub fn group_with(vm: &VmConfig, id: GroupId) -> Option<Group> {
    let period = vm.cap_period.duration();
    let cap = Cap::new(vm.cap?.of(period).into(), period.into()).expect("the configuration was checked for its turns");
    Some(Group { id, cap })
}

/// The longest time for which a VM's cap may keep one of its vCPUs from running.
pub fn cap_bound(vm: &VmConfig) -> Option<Nanos> {
    vm.cap.map(|_| held_back(vm.cap_period.duration().into()))
}

/// A cap keeps a vCPU from running for one and a half periods, and then half a period more until the vCPU has its turn.
fn held_back(period: Nanos) -> Nanos {
    Nanos(2 * period.0)
}

/// CPU time of a vCPU of this nice value under this policy, relative to one of nice 0, while both compute.
pub fn weight(policy: &PolicyConfig, nice: Nice) -> f64 {
    let of = |weight: fn(&PolicyConfig, Nice) -> f64| weight(policy, nice) / weight(policy, Nice::default());
    policy.algorithm.row().weight.map_or(1.0, of)
}

/// The longest that a runnable vCPU may wait for one of this many pCPUs beside these others, and for its cap. It is the
/// policy's bound, or `starvation_bound` if the policy promises none. `None` if there is neither.
pub fn starvation_bound(policy: &PolicyConfig, me: Attributes, others: &[Attributes], slots: usize) -> Option<Nanos> {
    let configured = policy.starvation_bound.duration().filter(|_| me.class != Class::Idle);
    let bound = wait_bound(policy, me, others, slots).or(configured.map(Nanos::from))?;
    Some(bound + me.group.map_or(Nanos::ZERO, |group| held_back(group.cap.period())))
}

/// The longest that a runnable vCPU waits for one of this many pCPUs beside these others. `None`: the policy promises
/// no bound.
pub fn wait_bound(policy: &PolicyConfig, me: Attributes, others: &[Attributes], slots: usize) -> Option<Nanos> {
    policy.algorithm.row().wait_bound.and_then(|bound| bound(policy, me, others, slots))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight_of(policy: &str, nice: i8) -> f64 {
        weight(&policy.parse().unwrap(), Nice::new(nice).unwrap())
    }

    #[test]
    fn weights_are_those_of_the_kernel_the_matrix_or_none_at_all() {
        for (nice, kernel, matrix) in [(0, 1024.0, 120.0), (5, 335.0, 45.0), (10, 110.0, 30.0)] {
            assert!((weight_of("host", nice) * 1024.0 - kernel).abs() < 1.0, "nice {nice}");
            assert_eq!(weight_of("rsdl", nice) * 120.0, matrix, "nice {nice}");
            assert_eq!(weight_of("freelist", nice), 1.0);
        }
        assert_eq!((weight_of("o1", 10), weight_of("goodness", 10)), (0.5, 0.5));
    }

    #[test]
    fn only_rsdl_promises_a_longest_wait() {
        let (me, others) = (Attributes::default(), [Attributes::default(); 3]);
        let bound = |policy: &str| wait_bound(&policy.parse().unwrap(), me, &others, 2);
        assert!(bound("rsdl").is_some_and(|bound| bound > Nanos::ZERO));
        assert_eq!((bound("host"), bound("o1")), (None, None));
    }

    #[test]
    fn a_configured_bound_counts_where_the_policy_promises_nothing_but_not_for_class_idle() {
        let others = [Attributes::default(); 3];
        let bound = |policy: &str, class| {
            let starvation_bound = "2s".parse().unwrap();
            let policy = PolicyConfig { starvation_bound, ..policy.parse().unwrap() };
            super::starvation_bound(&policy, Attributes { class, ..Attributes::default() }, &others, 2)
        };
        assert_eq!(bound("o1", Class::Normal), Some(Nanos::from_millis(2_000)));
        assert_eq!(bound("o1", Class::Idle), None);
        let promised = wait_bound(&"rsdl".parse().unwrap(), Attributes::default(), &others, 2);
        assert_eq!(bound("rsdl", Class::Normal), promised);
        assert_eq!(bound("rsdl", Class::Idle), None);
    }

    #[test]
    fn executors_are_taken_where_vcpus_move_freely_and_leases_elsewhere_unless_configured() {
        assert_eq!(mechanism(Mechanism::Auto, true), Carries::Executors);
        assert_eq!(mechanism(Mechanism::Auto, false), Carries::Leases);
        assert_eq!(mechanism(Mechanism::Executors, false), Carries::Executors);
        assert_eq!(mechanism(Mechanism::Leases, true), Carries::Leases);
    }
}
