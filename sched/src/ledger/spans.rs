//! From events to spans: what each vCPU did from when to when, and why it began to wait.
//!
//! One pass over events in order of time, in memory that grows with the number of vCPUs only. It judges nothing, and
//! trusts nothing: events may come from a file. An event that contradicts those before it is reported as such. From
//! then on it counts, and not what came before. So a reader goes on behind a [gap](What::Gap) with the vCPUs that later
//! events name.
//!
//! Invariant: the spans of one vCPU follow each other without overlap, and are closed in the order of their ends, but
//! for the running before a nap, whose end is told one event later.

use super::event::{Event, What};
use crate::ids::{Slot, VcpuId};
use crate::policy::{Decision, Placement, Why};
use crate::time::{Nanos, Time};
use crate::wait::Yield;

/// Larger ids, which no domain gives, are contradictions.
const MOST_VCPUS: usize = 1 << 17;
/// Stairs further down, where no domain gets, are contradictions: at a stair each microsecond this takes nine years.
const MOST_STAIRS: u64 = 1 << 48;

/// A vCPU did one thing for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// When it began.
    pub from: Time,
    /// Until when.
    pub to: Time,
    /// What it did.
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
    /// It is on a slot, and the host takes the time. When in its turn that was is not known: it is put at the end.
    Taken(Slot),
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
    pub fn time(&self) -> Nanos {
        self.to.since(self.from)
    }
}

#[derive(Debug, Clone, Copy)]
struct SlotNow {
    on: Option<VcpuId>,
    lease_end: Time,
}

/// What all vCPUs do, as of the latest event.
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
    /// No vCPU yet, on this many slots.
    pub fn new(slots: usize) -> Self {
        let idle = SlotNow { on: None, lease_end: Time::NEVER };
        Self { now: Vec::new(), slots: vec![idle; slots], held: None, at: Time(0) }
    }

    /// Takes the next event in; spans that are over by it are appended. False: it contradicts the events before it.
    pub fn tell(&mut self, event: &Event, closed: &mut Vec<Span>) -> bool {
        let fits = event.time >= self.at && self.fits(&event.what);
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

    /// All vCPUs that are there.
    pub fn vcpus(&self) -> impl Iterator<Item = VcpuId> + '_ {
        (0..).map(VcpuId).zip(&self.now).filter(|(_, now)| now.is_some()).map(|(vcpu, _)| vcpu)
    }

    /// The vCPU on a slot.
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
            What::Add { vcpu: v, slot: s, .. } => vcpu(v) && slot(s),
            What::Remove { vcpu: v } | What::Idled { vcpu: v, .. } | What::Charge { vcpu: v, .. } => vcpu(v),
            What::Wake { vcpu: v, placement, .. } | What::Resume { vcpu: v, placement } => {
                vcpu(v) && placement.slot().is_none_or(slot)
            }
            What::Depart { vcpu: v } => vcpu(v),
            What::Arrive { vcpu: v, slot: s, placement } => {
                vcpu(v) && slot(s) && placement.and_then(Placement::slot).is_none_or(slot)
            }
            What::KeepUp { slot: s, front } => slot(s) && front.stair < MOST_STAIRS,
            What::Taken { slot: s, .. } | What::Overran { slot: s } => slot(s),
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
                What::Depart { vcpu } => waits(vcpu) || idles(vcpu),
                What::Arrive { vcpu, placement: Some(_), .. } => waits(vcpu),
                What::Arrive { vcpu, placement: None, .. } => idles(vcpu),
                What::Taken { slot, .. } | What::Overran { slot } => self.on(slot).is_some(),
                What::Charge { vcpu, .. } => self.now(vcpu).is_some(),
                What::Ask { slot, vcpu, decision, why } => {
                    let stays = !matches!(why, Why::Block | Why::Retire);
                    let free = |next| waits(next) || stays && vcpu == Some(next);
                    self.on(slot) == vcpu && decision.run.is_none_or(|lease| free(lease.vcpu))
                }
                What::Gap { .. } | What::KeepUp { .. } => true,
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
            What::Wake { vcpu, placement: Placement::Held, .. } => {
                self.becomes(vcpu, Some(Doing::Wait(Began::HeldBack)), at, closed);
            }
            What::Wake { vcpu, placement, .. } => {
                self.becomes(vcpu, Some(Doing::Wait(Began::Woken(placement))), at, closed);
            }
            What::Resume { vcpu, placement } => {
                self.becomes(vcpu, Some(Doing::Wait(Began::Resumed(placement))), at, closed);
            }
            What::Depart { .. } | What::Arrive { .. } | What::KeepUp { .. } => {}
            What::Ask { slot, vcpu, why, decision } => self.asks(slot, vcpu, why, decision, at, closed),
            What::Steal { slot, taken, .. } => {
                if taken && let Some(robbed) = self.slots[slot.index()].on.take() {
                    self.becomes(robbed, Some(Doing::Wait(Began::Robbed)), at, closed);
                }
            }
            What::Taken { slot, time } => self.taken(slot, time, at, closed),
            What::Idled { .. } | What::Overran { .. } | What::Charge { .. } => {}
            What::Gap { .. } => {
                self.finish(closed);
                self.now.clear();
            }
        }
    }

    /// The host took so much from the vCPU on a slot.
    fn taken(&mut self, slot: Slot, time: Nanos, at: Time, closed: &mut Vec<Span>) {
        let SlotNow { on, lease_end } = &mut self.slots[slot.index()];
        *lease_end = *lease_end + time;
        let Some(vcpu) = *on else { return };
        let began = self.now(vcpu).map_or(at, |(_, since)| since);
        self.becomes(vcpu, Some(Doing::Taken(slot)), began.max(at - time), closed);
        self.becomes(vcpu, Some(Doing::Run(slot)), at, closed);
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
