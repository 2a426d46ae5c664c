//! The two bugs, each on and off, and what is sound in any case.

use super::harness::{audited, of_nice};
use crate::attributes::Attributes;
use crate::ids::{Nice, Slot, VcpuId};
use crate::policy::goodness::{LONGEST_LEASE, YieldBugs};
use crate::policy::{Goodness, Policy, Why, YieldCounts};
use crate::sim::{Guest, SimMachine};
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};

const P0: Slot = Slot(0);
const YIELD: Why = Why::Yield(Yield { wait: Wait::Unknown, again: false });

fn machine(bugs: YieldBugs) -> SimMachine<Goodness> {
    audited(Goodness::new(bugs, 1), 1, LONGEST_LEASE)
}

fn yielder() -> Guest {
    Guest::yielder(Nanos::from_millis(1), Wait::Unknown)
}

/// One slot, on which the first of these runs.
fn running(bugs: YieldBugs, nices: &[i8]) -> Goodness {
    let mut policy = Goodness::new(bugs, 1);
    for (v, &nice) in (0..).zip(nices) {
        policy.add(VcpuId(v), Attributes { nice: Nice::new(nice).unwrap(), ..Attributes::default() }, Time(0));
        let _ = policy.wake(VcpuId(v), Time(0));
    }
    assert_eq!(policy.next(P0, Why::Free, Time(0)).run.unwrap().vcpu, VcpuId(0));
    policy
}

#[test]
fn hogs_share_by_refill() {
    let mut machine = machine(YieldBugs::default());
    let [full, half] = [0, 10].map(|nice| machine.start(of_nice(nice), Guest::Hog, 0));
    machine.run(Nanos::from_millis(6000));
    let ratio = machine.record(full).run.0 as f64 / machine.record(half).run.0 as f64;
    assert!((1.9..=2.1).contains(&ratio), "{ratio}");
}

#[test]
fn a_sole_yielder_makes_all_counters_be_refilled_only_with_the_bug() {
    for yield_recalculates in [false, true] {
        let mut machine = machine(YieldBugs { yield_recalculates, ..YieldBugs::default() });
        machine.start(of_nice(0), yielder(), 0);
        machine.run(Nanos::from_millis(50));
        let counts = machine.policy().yield_counts().unwrap();
        // A vCPU that yields in vain is not even asked about, unless that changes something.
        let each = if yield_recalculates { 49 } else { 0 };
        assert_eq!((counts.sole, counts.recalculations), (each, each), "{counts:?}");
    }
}

#[test]
fn a_yield_to_a_worse_vcpu_is_taken_back_in_an_extra_pass_only_with_the_bug() {
    for yield_bounces in [false, true] {
        let mut policy = running(YieldBugs { yield_bounces, ..YieldBugs::default() }, &[0, 10]);
        let decision = policy.next(P0, YIELD, Time(1_000_000));
        assert_eq!(decision.run.unwrap().vcpu, VcpuId(1), "the waiter is dispatched in any case");
        assert_eq!(decision.kick, yield_bounces.then_some(P0));
        let after = policy.next(P0, Why::Check, Time(1_000_001)).run.unwrap().vcpu;
        assert_eq!(after, if yield_bounces { VcpuId(0) } else { VcpuId(1) });
        assert_eq!(policy.yield_counts().unwrap().extra_passes, u64::from(yield_bounces));
    }
}

#[test]
fn a_yielder_lets_even_those_run_whose_counter_is_used_up() {
    let mut policy = running(YieldBugs::default(), &[0, 19]);
    let lease = policy.next(P0, YIELD, Time(0)).run.unwrap();
    assert_eq!(lease.vcpu, VcpuId(1));
    assert_eq!(policy.next(P0, Why::Check, lease.until).run.unwrap().vcpu, VcpuId(0), "its counter is used up");
    assert_eq!(policy.next(P0, YIELD, lease.until).run.unwrap().vcpu, VcpuId(1));
    let counts = YieldCounts { yields: 2, recalculations: 1, ..YieldCounts::default() };
    assert_eq!(policy.yield_counts(), Some(counts));
}

#[test]
fn who_sleeps_saves_up_and_goes_ahead_of_hogs() {
    let mut machine = machine(YieldBugs::default());
    (0..3).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
    let client = machine.start(of_nice(0), Guest::client(Nanos::from_millis(1), Nanos::from_millis(20)), 0);
    machine.run(Nanos::from_millis(3000));
    // One request takes 21 ms, and only the first ones have to wait.
    assert!(machine.world.gauges[client].ops > 130, "{:?}", machine.record(client));
}
