//! Spans over real policies.

use crate::attributes::Attributes;
use crate::ids::{Slot, VcpuId};
use crate::ledger::Ledger;
use crate::ledger::event::{Event, What};
use crate::ledger::spans::{Began, Doing, Spans};
use crate::policy::{Decision, Freelist, Placement, Why};
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};

const A: VcpuId = VcpuId(0);
const B: VcpuId = VcpuId(1);
const P0: Slot = Slot(0);

fn ms(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

/// One slot; A runs from 2 ms on, B waits from 3 ms on.
fn begun() -> Ledger<Freelist> {
    let mut ledger = Ledger::new(Freelist::new(Nanos::from_millis(6), 1), 1, 64);
    [A, B].into_iter().for_each(|vcpu| ledger.add(vcpu, Attributes::default(), ms(1) + Nanos(vcpu.0.into())));
    let _ = ledger.wake(A, None, ms(2) - Nanos(1));
    let _ = ledger.next(P0, Why::Free, ms(2));
    let _ = ledger.wake(B, None, ms(3));
    ledger
}

fn spans_of(ledger: &Ledger<Freelist>, vcpu: VcpuId) -> Vec<(Time, Time, Doing)> {
    let (mut spans, mut closed) = (Spans::new(1), Vec::new());
    for event in ledger.trace().latest() {
        assert!(spans.tell(&event, &mut closed), "{event:?}");
    }
    spans.finish(&mut closed);
    closed.iter().filter(|s| s.vcpu == vcpu).map(|s| (s.from, s.to, s.doing)).collect()
}

#[test]
fn a_vcpu_idles_waits_and_runs_without_a_hole_in_between() {
    let mut ledger = begun();
    let y = Yield { wait: Wait::Lock(B), again: false };
    let _ = ledger.next(P0, Why::Yield(y), ms(5));
    let _ = ledger.next(P0, Why::Check, ms(11));
    let _ = ledger.next(P0, Why::Check, ms(12));
    let (queued, run) = (Began::Woken(Placement::Queue(None)), Doing::Run(P0));
    assert_eq!(
        spans_of(&ledger, B)[1..],
        [(ms(3), ms(5), Doing::Wait(queued)), (ms(5), ms(11), run), (ms(11), ms(12), Doing::Wait(Began::UsedUp))]
    );
    assert_eq!(spans_of(&ledger, A)[3], (ms(5), ms(11), Doing::Wait(Began::Yielded(y))));
}

#[test]
fn a_nap_told_late_ends_the_running_when_it_began() {
    let mut ledger = begun();
    let _ = ledger.next(P0, Why::Block, ms(6));
    ledger.idled_since(A, ms(4));
    let _ = ledger.wake(A, None, ms(8));
    let spans = spans_of(&ledger, A);
    assert_eq!(spans[2..4], [(ms(2), ms(4), Doing::Run(P0)), (ms(4), ms(8), Doing::Idle)]);
}

#[test]
fn events_that_contradict_each_other_are_told_and_do_no_harm() {
    let (mut spans, mut closed) = (Spans::new(1), Vec::new());
    let whats = [
        What::Remove { vcpu: A },
        What::Wake { vcpu: A, by: None, placement: Placement::Run(Slot(7)) },
        What::Idled { vcpu: VcpuId(u32::MAX), since: Time(0) },
        What::Steal { slot: P0, thief: B, taken: true },
        What::Ask { slot: P0, vcpu: Some(B), why: Why::Block, decision: Decision::IDLE },
        What::Ask { slot: Slot(1), vcpu: None, why: Why::Free, decision: Decision::IDLE },
    ];
    for (at, what) in (1..).zip(whats) {
        assert!(!spans.tell(&Event { time: Time(at), what }, &mut closed), "{what:?}");
    }
    let late = Event { time: Time(1), what: What::Gap { lost: 1 } };
    assert!(!spans.tell(&late, &mut closed), "time went back");
}

#[test]
fn behind_a_gap_everybody_is_unknown_until_heard_of() {
    let mut events = begun().trace().latest();
    let gap = Event { time: ms(4), what: What::Gap { lost: 3 } };
    events.push(gap);
    let (mut spans, mut closed) = (Spans::new(1), Vec::new());
    assert!(events.iter().all(|event| spans.tell(event, &mut closed)));
    assert_eq!((spans.now(A), spans.on(P0), closed.iter().map(|s| s.to).max()), (None, None, Some(ms(4))));
}
