//! Faults that `rsdl` had where each slot has a queue of its own. Random guests found them.

use super::super::harness::{audited, of_nice};
use crate::attributes::{Attributes, Class};
use crate::ids::{Nice, Slot, VcpuId};
use crate::policy::rsdl::matrix::Row;
use crate::policy::rsdl::{PoliteSwitches, RsdlConfig, Variant, YieldRule, rt, wait_bound};
use crate::policy::{Placement, Policy, Rsdl, Why};
use crate::sim::guest::Patience;
use crate::sim::{Guest, SimMachine};
use crate::time::{Nanos, Time};
use crate::wait::Wait;

const MS: u64 = 1_000_000;
const QUOTA: Nanos = Nanos::from_millis(6);
/// A guest, its nice value and its class.
type Of = (Guest, i8, Class);

fn us(micros: u64) -> Nanos {
    Nanos::from_micros(micros)
}

fn config(yield_rule: YieldRule) -> RsdlConfig {
    RsdlConfig { yield_rule, per_pcpu_queues: true, ..RsdlConfig::default() }
}

fn polite() -> YieldRule {
    YieldRule::Polite(PoliteSwitches::default())
}

fn attributes(&(_, nice, class): &Of) -> Attributes {
    Attributes { class, ..of_nice(nice) }
}

/// These guests on so many slots, started this time apart.
fn started(yield_rule: YieldRule, slots: usize, guests: &[Of], apart: Nanos) -> SimMachine<Rsdl> {
    let mut machine = audited(Rsdl::new(config(yield_rule), slots), slots, rt::FULL);
    for of in guests {
        machine.start(attributes(of), of.0.clone(), 0);
        machine.run(apart);
    }
    machine
}

/// A slot took the batch vCPU, which stood further down than the vCPU that then went on there. The other slot took it
/// back, and its stair was further down each time.
#[test]
fn a_slot_takes_no_vcpu_that_stands_further_down_than_its_own_vcpu_that_goes_on() {
    let guests = [
        (Guest::Hog, 19, Class::Normal),
        (Guest::prober(us(5_172), us(10)), 0, Class::Batch),
        (Guest::yielder(us(20), Wait::Unknown), 0, Class::Normal),
        (Guest::Hog, 0, Class::Normal),
        (Guest::Hog, 0, Class::Idle),
        (Guest::Hog, 0, Class::Normal),
    ];
    let mut machine = started(YieldRule::None, 3, &guests, us(1_503));
    machine.run(Nanos::from_millis(2_000));
    let all = guests.each_ref().map(attributes);
    let others = [&all[..1], &all[2..]].concat();
    let bound = wait_bound(&config(YieldRule::None), all[1], &others, 3).unwrap();
    let wait = machine.record(1).longest_wait;
    assert!(wait < bound, "{wait:?} of {bound:?}");
}

/// Two vCPUs of class rt waited in the same queue and shared that slot's budget. The other slot ran class normal.
#[test]
fn a_slot_takes_a_vcpu_of_class_rt_that_waits_for_another() {
    let guests = [
        (Guest::prober(us(300), us(85)), 0, Class::Normal),
        (Guest::Hog, 10, Class::Normal),
        (Guest::Hog, 0, Class::Normal),
        (Guest::Hog, 0, Class::Normal),
        (Guest::Hog, 0, Class::Normal),
        (Guest::Hog, 0, Class::Rt),
        (Guest::Hog, 0, Class::Normal),
        (Guest::locker(us(1), us(1), Patience::Hints), 0, Class::Rt),
    ];
    let mut machine = started(YieldRule::None, 2, &guests, us(1_601));
    let before = [5, 7].map(|v| machine.record(v).run.0);
    machine.run(Nanos::from_millis(2_000));
    for (v, before) in [5, 7].into_iter().zip(before) {
        // A period begins when the slot asks, so it can be a lease longer than 100 ms.
        let percent = (machine.record(v).run.0 - before) / (20 * MS);
        assert!(percent >= rt::SHARE - 5, "v{v} ran for {percent} % of the time");
    }
}

/// On a slot whose queue was empty, a vCPU of class rt went on when its budget was used up. A vCPU of class normal
/// waited for the other slot.
#[test]
fn class_rt_without_a_budget_gives_way_to_those_that_wait_for_another_slot() {
    let [first, second, waits] = [0, 1, 3].map(VcpuId);
    let slots = [Slot(0), Slot(1)];
    let mut policy = Rsdl::new(config(polite()), 2);
    for v in (0..4).map(VcpuId) {
        // Homes go round: vCPUs 1 and 3 are at home on slot 1.
        let class = if v == first { Class::Rt } else { Class::Normal };
        policy.add(v, Attributes { class, ..Attributes::default() }, Time(0));
    }
    for (v, slot) in [first, second].into_iter().zip(slots) {
        assert_eq!(policy.wake(v, Time(0)), Placement::Run(slot));
        assert_eq!(policy.next(slot, Why::Free, Time(0)).run.map(|lease| lease.vcpu), Some(v));
    }
    assert!(matches!(policy.wake(waits, Time(0)), Placement::Queue(_)));
    let lease = policy.next(slots[0], Why::Check, Time(MS)).run.unwrap();
    assert_eq!((lease.vcpu, lease.until), (first, Time(0) + rt::FULL));
    assert_eq!(policy.next(slots[0], Why::Check, lease.until).run.map(|lease| lease.vcpu), Some(waits));
}

/// A vCPU of class idle yielded, and went on each time because its slot's queue was empty. A vCPU of nice 19 waited for
/// the other slot for 317 ms.
#[test]
fn a_yielder_of_class_idle_gives_way_to_those_that_wait_for_another_slot() {
    let guests = [
        (Guest::pinger(2, Patience::Hints), 0, Class::Idle),
        (Guest::prober(us(2_755), us(588)), 0, Class::Normal),
        (Guest::locker(us(100), us(34), Patience::Mute), 19, Class::Normal),
        (Guest::locker(us(18), us(152), Patience::Hints), 0, Class::Batch),
    ];
    let mut machine = started(polite(), 2, &guests, us(263));
    machine.run(Nanos::from_millis(2_000));
    let longest = machine.record(2).longest_wait;
    assert!(longest < Nanos(3 * QUOTA.0), "{longest:?} beside two others of class normal and batch on two slots");
}

/// A slot took a vCPU whose next stair was 31 stairs away. The vCPU stood further up than the slot's queue lets others
/// keep, so it was moved to that next stair and lost a quota.
#[test]
fn a_vcpu_whose_stairs_are_far_apart_keeps_its_quota_when_it_moves() {
    let variant = Variant::LevelQuota;
    let config = RsdlConfig { variant, least_quota: QUOTA, ..config(YieldRule::None) };
    let mut machine = audited(Rsdl::new(config, 3), 3, rt::FULL);
    let nices = [5, 10, 10, 10].repeat(4);
    let hogs: Vec<usize> = nices.iter().map(|&nice| machine.start(of_nice(nice), Guest::Hog, 0)).collect();
    machine.run(Nanos::from_millis(177));
    for (v, nice) in hogs.into_iter().zip(nices).filter(|&(v, _)| machine.is_queued(v)) {
        let row = Row::new(Nice::new(nice).unwrap(), QUOTA, variant);
        let (stair, used) = machine.policy().position(VcpuId(v as u32));
        let left = (0..stair).filter(|&stair| row.at_or_after(stair) == stair).count() as u64;
        let quotas = left * row.quota.0 + used.0 - row.quota.0 / 2;
        // The first was alone for a moment, and one paid for a kick.
        assert!(machine.record(v).run.0.abs_diff(quotas) < 10_000, "v{v} on {stair}: {quotas} ns in quotas");
    }
}

/// A vCPU that had fallen behind in one queue moved to another and yielded there. The yield moved it down to where the
/// other queue was. A yielder beside four hogs on three slots had 0.93 of a hog's time, and 0.70 under the strict rule.
#[test]
fn a_yielder_keeps_the_time_it_is_due_when_it_moves() {
    let strict = YieldRule::Polite(PoliteSwitches { strict: true, ..PoliteSwitches::default() });
    for (rule, part) in [(polite(), 0.98), (strict, 0.85)] {
        for stretch in (6_034..9_000).step_by(97) {
            let hog = (Guest::Hog, 0, Class::Normal);
            let yielder = (Guest::yielder(us(stretch), Wait::Unknown), 0, Class::Normal);
            let mut machine = started(rule, 3, &[yielder, hog.clone(), hog.clone(), hog.clone(), hog], Nanos::ZERO);
            machine.run(Nanos::from_millis(3_000));
            let run = |v: usize| machine.record(v).run.0 as f64;
            let ratio = run(0) / (1..5).map(run).fold(f64::MAX, f64::min);
            assert!(ratio >= part, "{ratio:.3} with a yield each {stretch} us, {rule:?}");
        }
    }
}
