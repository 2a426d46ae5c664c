//! The ledger over real policies.

mod figures;
mod replay;
mod spans;
mod why;

use super::*;
use crate::attributes::{Cap, Group, GroupId};
use crate::policy::rsdl::RsdlConfig;
use crate::policy::{Capped, Freelist, Rsdl};
use crate::wait::{Wait, Yield};

const A: VcpuId = VcpuId(0);
const B: VcpuId = VcpuId(1);
const C: VcpuId = VcpuId(2);
const SLOT: Slot = Slot(0);

fn at(us: u64) -> Time {
    Time(1_000_000 + us * 1_000)
}

fn us(us: u64) -> Nanos {
    Nanos::from_micros(us)
}

/// A ledger of one slot, with A running since 10 us and B queued since 20 us.
fn a_runs_and_b_waits(policy: Box<dyn Policy>) -> Ledger {
    let mut ledger = Ledger::new(policy, 1, 64);
    for vcpu in [A, B] {
        ledger.add(vcpu, Attributes::default(), at(0));
    }
    assert_eq!(ledger.wake(A, None, at(5)), Placement::Run(SLOT));
    let decision = ledger.next(SLOT, Why::Free, at(10));
    assert_eq!(decision.run.map(|lease| lease.vcpu), Some(A));
    let _ = ledger.wake(B, None, at(20));
    ledger
}

fn freelist() -> Box<dyn Policy> {
    Box::new(Freelist::new(Nanos::from_millis(6), 1))
}

fn rsdl() -> Box<dyn Policy> {
    Box::new(Rsdl::new(RsdlConfig::default(), 1))
}

#[test]
fn run_wait_and_idleness_add_up_to_the_time_since_a_vcpu_was_added() {
    let mut ledger = a_runs_and_b_waits(freelist());
    let decision = ledger.next(SLOT, Why::Block, at(50));
    assert_eq!(decision.run.map(|lease| lease.vcpu), Some(B));
    let (a, b) = (ledger.account_of(A, at(80)).unwrap(), ledger.account_of(B, at(80)).unwrap());
    assert_eq!((a.run, a.wait, a.idle), (us(40), us(5), us(35)),);
    assert_eq!((b.run, b.wait, b.idle), (us(30), us(30), us(20) - Nanos(1)), "it was added a nanosecond later");
    assert_eq!((a.total(), b.total()), (us(80), us(80) - Nanos(1)));
    assert_eq!((b.waits.count(), b.waits.max(), b.turns), (1, us(30), 1));
    assert_eq!(ledger.waited(B), us(30));
    assert_eq!(ledger.counts().switches, 1);
}

#[test]
fn the_last_account_of_a_vcpu_that_ended_is_given_once() {
    let mut ledger = a_runs_and_b_waits(freelist());
    let decision = ledger.next(SLOT, Why::Retire, at(50));
    assert_eq!(decision.run.map(|lease| lease.vcpu), Some(B));
    let _ = ledger.next(SLOT, Why::Block, at(60));
    ledger.remove(B, at(70));
    let [a, b] = [A, B].map(|vcpu| ledger.close(vcpu));
    assert_eq!((a.run, a.total()), (us(40), us(50)), "nothing is added after its end");
    assert_eq!((b.run, b.wait, b.total() + Nanos(1)), (us(10), us(30), us(70)));
    assert!([A, B].iter().all(|&vcpu| ledger.account_of(vcpu, at(80)).is_none()));
    assert_eq!(ledger.close(A).total(), Nanos::ZERO);
}

#[test]
fn a_vcpu_whose_slot_was_stolen_before_it_began_has_waited_all_the_time() {
    let mut ledger = a_runs_and_b_waits(rsdl());
    ledger.add(C, Attributes::default(), at(25));
    let _ = ledger.wake(C, None, at(30));
    let decision = ledger.next(SLOT, Why::Block, at(50));
    assert_eq!(decision.run.map(|lease| lease.vcpu), Some(B));
    assert!(ledger.steals(SLOT, C, at(60)));
    let _ = ledger.next(SLOT, Why::Free, at(60));
    let (b, c) = (ledger.account_of(B, at(80)).unwrap(), ledger.account_of(C, at(80)).unwrap());
    assert_eq!((b.run, b.wait, c.steals), (Nanos::ZERO, us(60), 1));
}

#[test]
fn what_happened_between_two_readings_of_an_account_is_their_difference() {
    let mut ledger = a_runs_and_b_waits(freelist());
    let before = ledger.account_of(B, at(30)).unwrap();
    let _ = ledger.next(SLOT, Why::Yield(Yield { wait: Wait::Unknown, again: false }), at(50));
    let after = ledger.account_of(B, at(80)).unwrap();
    let since = after.since(&before);
    assert_eq!((since.run, since.wait, since.idle), (us(30), us(20), Nanos::ZERO));
    assert_eq!((since.turns, since.waits.count(), after.since(&after).total()), (1, 1, Nanos::ZERO));
}

#[test]
fn a_nap_reported_late_counts_as_idleness() {
    let mut ledger = a_runs_and_b_waits(freelist());
    let _ = ledger.next(SLOT, Why::Block, at(50));
    ledger.idled_since(A, at(35));
    let a = ledger.account_of(A, at(60)).unwrap();
    assert_eq!((a.run, a.idle), (us(25), us(30)));
}

#[test]
fn a_lease_passed_on_by_a_yield_is_lent_and_borrowed() {
    let mut ledger = a_runs_and_b_waits(rsdl());
    let _ = ledger.next(SLOT, Why::Check, at(30));
    let lock = Why::Yield(Yield { wait: Wait::Lock(B), again: false });
    let decision = ledger.next(SLOT, lock, at(50));
    assert_eq!(decision.run.map(|lease| lease.vcpu), Some(B));
    let _ = ledger.next(SLOT, Why::Block, at(90));
    let (a, b) = (ledger.account_of(A, at(90)).unwrap(), ledger.account_of(B, at(90)).unwrap());
    assert_eq!((a.lent, b.borrowed), (us(40), us(40)));
    assert_eq!((a.yields.lock, a.yields.outcomes()), (Outcomes { switched: 1, ..Outcomes::default() }, a.yields.lock));
    assert_eq!((a.borrowed, b.lent), (Nanos::ZERO, Nanos::ZERO));
}

#[test]
fn running_beyond_the_end_of_a_lease_is_overrun_and_a_wanted_slot_that_asks_is_a_kick() {
    let mut ledger = a_runs_and_b_waits(rsdl());
    let decision = ledger.next(SLOT, Why::Check, at(24));
    assert_eq!(ledger.counts().kicks.max(), us(4), "the wake limited the lease");
    let end = decision.run.unwrap().until;
    let _ = ledger.next(SLOT, Why::Check, end + us(7));
    assert_eq!(ledger.account_of(A, end).unwrap().overrun, us(7));
}

#[test]
fn times_are_strictly_increasing_whatever_the_driver_says() {
    let mut ledger = a_runs_and_b_waits(freelist());
    for _ in 0..3 {
        let _ = ledger.next(SLOT, Why::Check, at(0));
    }
    let events = ledger.trace().latest();
    assert_eq!(events.len(), 8);
    assert!(events.windows(2).all(|pair| pair[0].time < pair[1].time));
}

#[test]
fn what_a_cap_holds_back_is_part_of_the_wait() {
    let cap = Cap::new(Nanos::from_millis(10), Nanos::from_millis(100)).unwrap();
    let attributes = Attributes { group: Some(Group { id: GroupId(7), cap }), ..Attributes::default() };
    let mut ledger = Ledger::new(Box::new(Capped::new(freelist(), 1)), 1, 64);
    ledger.add(A, attributes, at(0));
    let _ = ledger.wake(A, None, at(1));
    let _ = ledger.next(SLOT, Why::Free, at(1_001));
    let held = Decision { held: true, ..Decision::IDLE };
    assert_eq!(ledger.next(SLOT, Why::Check, at(6_001)), held, "its slice of 5 ms is used up");
    let due = ledger.alarm();
    assert_eq!(ledger.tick(due), Some(Resumed { vcpu: A, placement: Placement::Run(SLOT) }));
    let held = due.since(at(6_001));
    let _ = ledger.next(SLOT, Why::Free, due + us(100));
    let a = ledger.account_of(A, due + us(100)).unwrap();
    assert_eq!((a.throttled, a.wait - a.throttled), (held, us(1_100)));
    let resumed = What::Resume { vcpu: A, placement: Placement::Run(SLOT) };
    assert!(ledger.trace().latest().iter().any(|event| event.what == resumed));
}

#[test]
fn another_policy_object_that_is_told_the_same_answers_the_same() {
    let mut ledger = a_runs_and_b_waits(rsdl());
    for n in 0..20 {
        let again = n % 2 == 1;
        let _ = ledger.next(SLOT, Why::Yield(Yield { wait: Wait::Unknown, again }), at(30 + 13 * n));
    }
    let mut fresh = rsdl();
    for event in ledger.trace().latest() {
        match event.what {
            What::Add { vcpu, nice, class, group, .. } => {
                fresh.add(vcpu, Attributes { nice, class, group }, event.time)
            }
            What::Wake { vcpu, placement, .. } => assert_eq!(fresh.wake(vcpu, event.time), placement),
            What::Ask { slot, why, decision, .. } => assert_eq!(fresh.next(slot, why, event.time), decision),
            What::Resume { vcpu, placement } => assert_eq!(fresh.tick(event.time), Some(Resumed { vcpu, placement })),
            What::Taken { slot, time } => fresh.taken(slot, time),
            What::Overran { slot } => fresh.overran(slot),
            What::Charge { vcpu, time } => fresh.charge(vcpu, time, event.time),
            _ => unreachable!("none of these is among them"),
        }
    }
}
