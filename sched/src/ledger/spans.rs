//! From events to spans: what each vCPU did from when to when, and why it began to wait.
//!
//! One pass over events in order of time, in memory that grows with the number of vCPUs only. It judges nothing, and trusts
//! nothing: events may come from a file. Those that contradict what came before are told as such, and from then on they
//! count, not what came before; so a reader goes on behind a [gap](What::Gap) with whom it hears of.
//!
//! Invariant: the spans of one vCPU follow each other without overlap, and are closed in the order of their ends, but for
//! the running before a nap, whose end is told one event later.

use super::event::{Event, What};
use crate::policy::{Decision, Placement, Why};
use crate::{Slot, Time, VcpuId, Yield};

/// Larger ids, which no domain gives, are contradictions.
const MOST_VCPUS: usize = 1 << 17;

/// A vCPU did one thing for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Who.
    pub vcpu: VcpuId,
    /// From when.
    pub from: Time,
    /// Until when.
    pub to: Time,
    /// What.
    pub doing: Doing,
}

/// What a vCPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It is blocked.
    Idle,
    /// It could run and has no slot.
    Wait(Began),
    /// It is on a slot.
    Run(Slot),
}

/// Why a vCPU waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Began {
    /// It was woken, and this became of it.
    Woken(Placement),
    /// It yielded.
    Yielded(Yield),
    /// Its lease was used up.
    UsedUp,
    /// It had to make room before its lease was used up.
    GaveWay,
    /// Another one took the slot that it had been handed.
    Robbed,
    /// Its group's cap held it back, however it came to that.
    HeldBack,
    /// It was no longer held back, and this became of it.
    Resumed(Placement),
}

impl Span {
    /// How long.
    pub fn time(&self) -> crate::Nanos {
        self.to.since(self.from)
    }
}

#[derive(Debug, Clone, Copy)]
struct SlotNow {
    on: Option<VcpuId>,
    lease_end: Time,
}

/// What everybody does, as of the latest event.
#[derive(Debug, Clone)]
pub struct Spans {
    /// What each vCPU does, and since when.
    now: Vec<Option<(Doing, Time)>>,
    slots: Vec<SlotNow>,
    /// Running that ended by a block; the next event may say that it ended earlier.
    held: Option<Span>,
    at: Time,
}

impl Spans {
    /// Nobody there yet, on so many slots.
    pub fn new(slots: usize) -> Self {
        let idle = SlotNow { on: None, lease_end: Time::NEVER };
        Self { now: Vec::new(), slots: vec![idle; slots], held: None, at: Time(0) }
    }

    /// Takes the next event in; spans that are over by it are appended. False: it contradicts the events before it.
    pub fn tell(&mut self, event: &Event, closed: &mut Vec<Span>) -> bool {
        let fits = event.time > self.at && self.fits(&event.what);
        self.at = self.at.max(event.time);
        if let Some(mut held) = self.held.take() {
            if let What::Idled { vcpu, since } = event.what
                && vcpu == held.vcpu
            {
                held.to = since.clamp(held.from, held.to);
                self.now[vcpu.index()] = Some((Doing::Idle, held.to));
            }
            closed.push(held);
        }
        if self.is_possible(&event.what) {
            self.follow(event, closed);
        }
        fits
    }

    /// Ends all spans with the latest event.
    pub fn finish(&mut self, closed: &mut Vec<Span>) {
        closed.extend(self.held.take());
        for vcpu in 0..self.now.len() {
            self.becomes(VcpuId(vcpu as u32), None, self.at, closed);
        }
        self.slots.iter_mut().for_each(|slot| slot.on = None);
    }

    /// What a vCPU does, and since when; `None` if it is not there.
    pub fn now(&self, vcpu: VcpuId) -> Option<(Doing, Time)> {
        self.now.get(vcpu.index()).copied().flatten()
    }

    /// Everybody who is there.
    pub fn vcpus(&self) -> impl Iterator<Item = VcpuId> + '_ {
        (0..).map(VcpuId).zip(&self.now).filter(|(_, now)| now.is_some()).map(|(vcpu, _)| vcpu)
    }

    /// Who is on a slot.
    pub fn on(&self, slot: Slot) -> Option<VcpuId> {
        self.slots.get(slot.index())?.on
    }

    /// The time of the latest event.
    pub fn at(&self) -> Time {
        self.at
    }
}

/// What is sound.
impl Spans {
    /// Whether it names only what can exist.
    fn is_possible(&self, what: &What) -> bool {
        let slot = |slot: Slot| slot.index() < self.slots.len();
        let vcpu = |vcpu: VcpuId| vcpu.index() < MOST_VCPUS;
        match *what {
            What::Add { vcpu: v, .. } | What::Remove { vcpu: v } | What::Idled { vcpu: v, .. } => vcpu(v),
            What::Wake { vcpu: v, placement } | What::Resume { vcpu: v, placement } => {
                vcpu(v) && placement.slot().is_none_or(slot)
            }
            What::Late { slot: s, .. } => slot(s),
            What::Steal { slot: s, thief, .. } => slot(s) && vcpu(thief),
            What::Ask { slot: s, vcpu: before, decision: Decision { run, kick, .. }, .. } => {
                let next = run.map(|lease| lease.vcpu);
                slot(s) && kick.is_none_or(slot) && before.is_none_or(vcpu) && next.is_none_or(vcpu)
            }
            What::Gap { .. } => true,
        }
    }

    /// Whether it can follow what came before.
    fn fits(&self, what: &What) -> bool {
        let waits = |vcpu| matches!(self.now(vcpu), Some((Doing::Wait(_), _)));
        let idles = |vcpu| matches!(self.now(vcpu), Some((Doing::Idle, _)));
        self.is_possible(what)
            && match *what {
                What::Add { vcpu, .. } => self.now(vcpu).is_none(),
                What::Remove { vcpu } => waits(vcpu) || idles(vcpu),
                What::Wake { vcpu, .. } | What::Idled { vcpu, .. } => idles(vcpu),
                What::Steal { thief, .. } => waits(thief),
                What::Resume { vcpu, .. } => waits(vcpu),
                What::Late { slot, .. } => self.on(slot).is_some(),
                What::Ask { slot, vcpu, decision, why } => {
                    let stays = !matches!(why, Why::Block | Why::Retire);
                    let free = |next| waits(next) || stays && vcpu == Some(next);
                    self.on(slot) == vcpu && decision.run.is_none_or(|lease| free(lease.vcpu))
                }
                What::Gap { .. } => true,
            }
    }
}

/// What follows from events.
impl Spans {
    fn follow(&mut self, event: &Event, closed: &mut Vec<Span>) {
        let at = event.time;
        match event.what {
            What::Add { vcpu, .. } => self.becomes(vcpu, Some(Doing::Idle), at, closed),
            What::Remove { vcpu } => self.becomes(vcpu, None, at, closed),
            What::Wake { vcpu, placement: Placement::Held } => {
                self.becomes(vcpu, Some(Doing::Wait(Began::HeldBack)), at, closed);
            }
            What::Wake { vcpu, placement } => {
                self.becomes(vcpu, Some(Doing::Wait(Began::Woken(placement))), at, closed);
            }
            What::Resume { vcpu, placement } => {
                self.becomes(vcpu, Some(Doing::Wait(Began::Resumed(placement))), at, closed);
            }
            What::Ask { slot, vcpu, why, decision } => self.asks(slot, vcpu, why, decision, at, closed),
            What::Steal { slot, taken, .. } => {
                if taken && let Some(robbed) = self.slots[slot.index()].on.take() {
                    self.becomes(robbed, Some(Doing::Wait(Began::Robbed)), at, closed);
                }
            }
            What::Idled { .. } | What::Late { .. } => {}
            What::Gap { .. } => {
                self.finish(closed);
                self.now.clear();
            }
        }
    }

    fn asks(
        &mut self,
        slot: Slot,
        before: Option<VcpuId>,
        why: Why,
        decision: Decision,
        at: Time,
        closed: &mut Vec<Span>,
    ) {
        let next = decision.run.map(|lease| lease.vcpu);
        let leaves_for_good = matches!(why, Why::Block | Why::Retire);
        if let Some(vcpu) = before
            && (before != next || leaves_for_good)
        {
            let doing = match why {
                Why::Block => Some(Doing::Idle),
                Why::Retire => None,
                _ if decision.held => Some(Doing::Wait(Began::HeldBack)),
                Why::Yield(y) => Some(Doing::Wait(Began::Yielded(y))),
                _ if at >= self.slots[slot.index()].lease_end => Some(Doing::Wait(Began::UsedUp)),
                _ => Some(Doing::Wait(Began::GaveWay)),
            };
            self.becomes(vcpu, doing, at, closed);
            if why == Why::Block {
                self.held = closed.pop_if(|span| span.vcpu == vcpu && matches!(span.doing, Doing::Run(_)));
            }
        }
        if let Some(vcpu) = next
            && (before != next || leaves_for_good)
        {
            self.becomes(vcpu, Some(Doing::Run(slot)), at, closed);
        }
        let lease_end = decision.run.map_or(Time::NEVER, |lease| lease.until);
        self.slots[slot.index()] = SlotNow { on: next, lease_end };
    }

    /// A vCPU does something else from now on, or nothing any more.
    fn becomes(&mut self, vcpu: VcpuId, doing: Option<Doing>, at: Time, closed: &mut Vec<Span>) {
        if self.now.len() <= vcpu.index() {
            self.now.resize(vcpu.index() + 1, None);
        }
        let before = std::mem::replace(&mut self.now[vcpu.index()], doing.map(|doing| (doing, at)));
        if let Some((doing, from)) = before {
            closed.push(Span { vcpu, from, to: at, doing });
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::domain::Attributes;
    use crate::ledger::Ledger;
    use crate::policy::Freelist;
    use crate::{Nanos, Wait};

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
        let _ = ledger.wake(A, ms(2) - Nanos(1));
        let _ = ledger.next(P0, Why::Free, ms(2));
        let _ = ledger.wake(B, ms(3));
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
        let _ = ledger.wake(A, ms(8));
        let spans = spans_of(&ledger, A);
        assert_eq!(spans[2..4], [(ms(2), ms(4), Doing::Run(P0)), (ms(4), ms(8), Doing::Idle)]);
    }

    #[test]
    fn events_that_contradict_each_other_are_told_and_do_no_harm() {
        let (mut spans, mut closed) = (Spans::new(1), Vec::new());
        let whats = [
            What::Remove { vcpu: A },
            What::Wake { vcpu: A, placement: Placement::Run(Slot(7)) },
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
}
