//! What the rules come to, on the machine of the simulator; its invariants are checked on the way.

use super::harness::{audited, of_nice};
use crate::attributes::{Attributes, Class};
use crate::ids::{Slot, VcpuId};
use crate::policy::o1::{BALANCE_EVERY, LONGEST_LEASE};
use crate::policy::{O1, Policy, Why};
use crate::sim::{Guest, SimMachine};
use crate::time::{Nanos, Time};

fn machine(slots: usize) -> SimMachine<O1> {
    audited(O1::new(slots), slots, LONGEST_LEASE)
}

fn of(class: Class) -> Attributes {
    Attributes { class, ..Attributes::default() }
}

/// Works 1 ms of every 21 ms.
fn sleeper() -> Guest {
    Guest::client(Nanos::from_millis(1), Nanos::from_millis(20))
}

#[test]
fn hogs_share_by_slice() {
    let mut machine = machine(1);
    let [full, half] = [0, 10].map(|nice| machine.start(of_nice(nice), Guest::Hog, 0));
    machine.run(Nanos::from_millis(6000));
    let ratio = machine.record(full).run.0 as f64 / machine.record(half).run.0 as f64;
    assert!((1.9..=2.1).contains(&ratio), "{ratio}");
}

#[test]
fn who_sleeps_goes_ahead_of_hogs_once_that_is_known_unless_it_is_batch() {
    let wait = |class| {
        let mut machine = machine(1);
        (0..3).for_each(|_| _ = machine.start(of_nice(0), Guest::Hog, 0));
        let sleeper = machine.start(of(class), sleeper(), 0);
        machine.run(Nanos::from_millis(3000));
        machine.world.gauges[sleeper].ops
    };
    let (normal, batch) = (wait(Class::Normal), wait(Class::Batch));
    assert!(normal > 100 && batch < 20, "requests of a normal sleeper: {normal}, of a batch one: {batch}");
}

#[test]
fn rt_runs_before_all_and_idle_after_all_wherever_they_started() {
    let mut machine = machine(2);
    let idle: Vec<usize> = (0..2).map(|_| machine.start(of(Class::Idle), Guest::Hog, 0)).collect();
    machine.run(Nanos::from_millis(50));
    let hogs: Vec<usize> = (0..2).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
    machine.run(Nanos::from_millis(50));
    let rt: Vec<usize> = (0..2).map(|_| machine.start(of(Class::Rt), Guest::Hog, 0)).collect();
    machine.run(Nanos::from_millis(400));
    let least_of = |group: &[usize]| group.iter().map(|&v| machine.record(v).run).min().unwrap();
    let most_of = |group: &[usize]| group.iter().map(|&v| machine.record(v).run).max().unwrap();
    assert!(least_of(&rt) > Nanos::from_millis(395));
    assert!(least_of(&hogs) > Nanos::from_millis(45) && most_of(&hogs) < Nanos::from_millis(55));
    assert!(most_of(&idle) < Nanos::from_millis(55));
}

#[test]
fn a_yielder_has_one_turn_a_round() {
    let mut machine = machine(1);
    let hogs: Vec<usize> = (0..2).map(|_| machine.start(of_nice(0), Guest::Hog, 0)).collect();
    let yielder = machine.start(of_nice(0), Guest::yielder(Nanos::from_millis(1), crate::wait::Wait::Unknown), 0);
    machine.run(Nanos::from_millis(4000));
    let (turns, hog_turns) = (machine.record(yielder).turns, machine.record(hogs[0]).turns);
    assert!(turns.abs_diff(hog_turns) <= 2, "{turns} turns beside {hog_turns} of a hog");
}

/// Eight vCPUs of two slots, of which those at home on the second one end.
fn lopsided() -> O1 {
    let mut policy = O1::new(2);
    for vcpu in (0..8).map(VcpuId) {
        policy.add(vcpu, Attributes::default(), Time(0));
        let _ = policy.wake(vcpu, Time(0));
    }
    for slot in [Slot(0), Slot(1)] {
        let _ = policy.next(slot, Why::Free, Time(0));
    }
    for _ in 0..3 {
        let _ = policy.next(Slot(1), Why::Retire, Time(0));
    }
    assert_eq!((policy.queued_on(Slot(0)), policy.queued_on(Slot(1))), (3, 0));
    policy
}

#[test]
fn a_busy_slot_takes_half_the_difference_when_it_looks_round() {
    let mut policy = lopsided();
    let before = Time(0) + BALANCE_EVERY - Nanos(1);
    let _ = policy.next(Slot(1), Why::Check, before);
    assert_eq!(policy.queued_on(Slot(0)), 3, "it is not time yet");
    let _ = policy.next(Slot(1), Why::Check, before + Nanos(1));
    assert_eq!((policy.queued_on(Slot(0)), policy.queued_on(Slot(1))), (2, 1));
}

#[test]
fn a_slot_that_runs_out_of_work_takes_some_at_once() {
    let mut policy = lopsided();
    let decision = policy.next(Slot(1), Why::Block, Time(1));
    assert!(decision.run.is_some());
    assert_eq!((policy.queued_on(Slot(0)), policy.queued_on(Slot(1))), (2, 0));
}
