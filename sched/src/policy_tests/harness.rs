//! The simulator as the policies' tests use it: every step is audited, and costs are those of a fast host.

use crate::attributes::Attributes;
use crate::ids::Nice;
use crate::policy::Policy;
use crate::sim::{Costs, SimMachine};
use crate::time::Nanos;
use proptest::prelude::*;
use proptest::test_runner::Config;

/// A property is tried with so many random cases, and with `STILE_CASES` times as many where that is set.
pub(crate) fn cases(usual: u32) -> Config {
    let times = std::env::var("STILE_CASES").map_or(1, |times| times.parse().expect("STILE_CASES is a number"));
    Config::with_cases(usual * times)
}

/// Costs of a host where an exit is cheap.
pub(super) const COSTS: Costs = Costs {
    exit: Nanos(1_500),
    leave: Nanos::ZERO,
    switch: Nanos(1_000),
    kick: Nanos(5_000),
    wake: Nanos(5_000),
    hop: Nanos::ZERO,
    migration: Nanos::ZERO,
    lock: Nanos::ZERO,
};

/// An audited machine of idle slots. `longest_lease`: what no lease may exceed.
pub(crate) fn audited<P: Policy>(policy: P, slots: usize, longest_lease: Nanos) -> SimMachine<P> {
    SimMachine::new(policy, slots, COSTS).audited(longest_lease)
}

/// A normal vCPU of this nice value.
pub(crate) fn of_nice(nice: i8) -> Attributes {
    Attributes { nice: Nice::new(nice).unwrap(), ..Attributes::default() }
}

/// A vCPU's part of all CPU time so far, 1.0 being an equal one.
pub(crate) fn share<P: Policy>(machine: &SimMachine<P>, v: usize) -> f64 {
    let run = |v| machine.record(v).run.0 as f64;
    run(v) * machine.vcpus() as f64 / (0..machine.vcpus()).map(run).sum::<f64>()
}

/// Mean of [`share`] over a group.
pub(crate) fn share_of<P: Policy>(machine: &SimMachine<P>, group: &[usize]) -> f64 {
    group.iter().map(|&v| share(machine, v)).sum::<f64>() / group.len() as f64
}

/// What may pass between two events, from nothing to a year (unit: ns).
pub(crate) fn any_span() -> impl Strategy<Value = u64> {
    // Up to a year, now and then: a host that was suspended, or guests that all sleep.
    let leap = (0..55u32).prop_map(|bits| 1 << bits);
    prop_oneof![
        16 => Just(0),
        16 => 1u64..1000,
        16 => 1000u64..1_000_000,
        16 => 1_000_000u64..20_000_000,
        1 => leap,
    ]
}
