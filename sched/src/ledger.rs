//! The ledger: everything that passes between a driver and its policy goes through here, is accounted and recorded.
//!
//! A [`Ledger`] holds a domain's policy. It has the policy's methods, and hands each question on; from questions and
//! answers it knows at every moment which vCPU runs, waits or idles, and keeps its [`Account`], so that no driver need
//! count anything that follows from them. Each is also an [`Event`] in the [`Trace`].
//!
//! It decides nothing, and changes one thing only: the times it hands on are strictly increasing, a nanosecond apart at
//! least, so that events have one order, and a policy that is asked the same again answers the same.
//!
//! Who uses it holds the domain's lock; a [`Trace`] is read without.

mod account;
mod describe;
mod event;
mod look;
mod ring;

pub use account::{Account, Outcomes, Yielded};
pub use describe::describe;
pub(crate) use describe::span;
pub use event::{Event, WORDS, What};
pub use look::Seen;
pub use ring::Ring;

use crate::domain::Attributes;
use crate::histogram::Histogram;
use crate::policy::{Decision, Placement, Policy, Why};
use crate::{Nanos, Slot, Time, VcpuId};
use account::{Entry, State};
use std::sync::Arc;

/// Events that a domain keeps of each slot: half a megabyte.
pub const KEPT: usize = 1 << 14;

/// A policy with its accounts.
pub struct Ledger {
    policy: Box<dyn Policy>,
    vcpus: Vec<Option<Entry>>,
    slots: Box<[SlotEntry]>,
    counts: Counts,
    trace: Arc<Trace>,
    /// The latest time handed on.
    now: Time,
}

/// Counts of a domain since it started, of vCPUs that have ended too.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// A slot went from one vCPU to another.
    pub switches: u64,
    /// A vCPU was put on another slot than its last.
    pub migrations: u64,
    /// Yields while others waited.
    pub yields: Yielded,
    /// From the policy's wish that a slot asks, until it did.
    pub kicks: Histogram,
}

/// A slot, as the ledger knows it.
#[derive(Debug, Clone)]
struct SlotEntry {
    on: Option<VcpuId>,
    last: Option<VcpuId>,
    lease_end: Time,
    /// Whose lease it is that its vCPU runs on, if it was passed on.
    lender: Option<VcpuId>,
    /// Since when the policy wants it to ask.
    wanted: Option<Time>,
}

/// The latest events of a domain.
#[derive(Debug)]
pub struct Trace(Box<[Ring]>);

impl Trace {
    /// The rings, one for each slot; an event lies in the ring of the slot that it is about, or of the slot of its vCPU.
    pub fn rings(&self) -> &[Ring] {
        &self.0
    }

    /// All events that are still there, oldest first.
    pub fn latest(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for ring in &self.0 {
            ring.read(0, &mut events);
        }
        events.sort_unstable_by_key(|event| event.time);
        events
    }

    #[cfg(feature = "trace")]
    fn push(&self, slot: Option<Slot>, event: &Event) {
        self.0[slot.map_or(0, Slot::index)].push(event);
    }

    #[cfg(not(feature = "trace"))]
    fn push(&self, _: Option<Slot>, _: &Event) {}
}

impl Ledger {
    /// For a policy that knows of no vCPU yet and all of whose slots are idle, with room for this many events of each slot.
    pub fn new(policy: Box<dyn Policy>, slots: usize, kept: usize) -> Self {
        let slot = SlotEntry { on: None, last: None, lease_end: Time::NEVER, lender: None, wanted: None };
        Self {
            policy,
            vcpus: Vec::new(),
            slots: vec![slot; slots].into(),
            counts: Counts::default(),
            trace: Arc::new(Trace((0..slots).map(|_| Ring::new(kept)).collect())),
            now: Time(0),
        }
    }

    /// The events, for readers without the domain's lock.
    pub fn trace(&self) -> Arc<Trace> {
        Arc::clone(&self.trace)
    }

    /// The policy, to be looked at.
    pub fn policy(&self) -> &dyn Policy {
        &*self.policy
    }

    /// As [`Policy::add`].
    pub fn add(&mut self, vcpu: VcpuId, attributes: Attributes, now: Time) {
        let now = self.advance(now);
        if self.vcpus.len() <= vcpu.index() {
            self.vcpus.resize(vcpu.index() + 1, None);
        }
        self.vcpus[vcpu.index()] = Some(Entry::new(attributes, now));
        self.policy.add(vcpu, attributes, now);
        let Attributes { nice, class } = attributes;
        self.trace.push(None, &Event { time: now, what: What::Add { vcpu, nice, class } });
    }

    /// As [`Policy::remove`].
    pub fn remove(&mut self, vcpu: VcpuId, now: Time) {
        let now = self.advance(now);
        self.policy.remove(vcpu);
        self.forget(vcpu);
        self.trace.push(None, &Event { time: now, what: What::Remove { vcpu } });
    }

    /// As [`Policy::wake`].
    pub fn wake(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        let now = self.advance(now);
        let placement = self.policy.wake(vcpu, now);
        let entry = self.entry(vcpu);
        entry.enter(State::Waiting, now);
        let last = entry.last;
        let slot = match placement {
            Placement::Run(slot) => Some(slot),
            Placement::Preempt(slot) | Placement::Queue(Some(slot)) => {
                self.want(slot, now);
                Some(slot)
            }
            Placement::Queue(None) => last,
        };
        self.trace.push(slot, &Event { time: now, what: What::Wake { vcpu, placement } });
        placement
    }

    /// As [`Policy::next`].
    pub fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        let now = self.advance(now);
        let decision = self.policy.next(slot, why, now);
        let vcpu = self.slots[slot.index()].on;
        self.answered(slot, why, now);
        self.account(slot, why, decision, now);
        decision.kick.into_iter().for_each(|slot| self.want(slot, now));
        self.trace.push(Some(slot), &Event { time: now, what: What::Ask { slot, vcpu, why, decision } });
        decision
    }

    /// As [`Policy::steals`].
    pub fn steals(&mut self, slot: Slot, thief: VcpuId, now: Time) -> bool {
        let now = self.advance(now);
        let taken = self.policy.steals(slot, thief, now);
        if taken {
            let robbed = self.slots[slot.index()].on.take();
            robbed.into_iter().for_each(|robbed| self.entry(robbed).enter(State::Waiting, now));
            self.entry(thief).account.steals += 1;
        }
        self.trace.push(Some(slot), &Event { time: now, what: What::Steal { slot, thief, taken } });
        taken
    }

    /// As [`Policy::waiting`].
    pub fn waiting(&self) -> usize {
        self.policy.waiting()
    }

    /// A vCPU that has just been reported as blocked had done nothing on its slot since then.
    pub fn idled_since(&mut self, vcpu: VcpuId, since: Time) {
        let entry = self.entry(vcpu);
        let idled = Nanos(entry.since.since(since).0.min(entry.account.run.0));
        entry.account.run = entry.account.run - idled;
        entry.account.idle += idled;
    }

    /// How long a vCPU has waited in all.
    pub fn waited(&self, vcpu: VcpuId) -> Nanos {
        self.vcpus.get(vcpu.index()).and_then(Option::as_ref).map_or(Nanos::ZERO, |entry| entry.account.wait)
    }

    /// A vCPU's account up to now; `None` if there is no such vCPU.
    pub fn account_of(&self, vcpu: VcpuId, now: Time) -> Option<Account> {
        let mut entry = self.vcpus.get(vcpu.index())?.clone()?;
        entry.settle(now.max(self.now));
        Some(entry.account)
    }

    /// Counts of the domain.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// What follows from questions and answers.
impl Ledger {
    fn advance(&mut self, now: Time) -> Time {
        self.now = now.max(self.now + Nanos(1));
        self.now
    }

    fn entry(&mut self, vcpu: VcpuId) -> &mut Entry {
        self.vcpus[vcpu.index()].as_mut().expect("drivers and policies name vCPUs that were added")
    }

    fn forget(&mut self, vcpu: VcpuId) {
        self.vcpus[vcpu.index()] = None;
    }

    /// The policy wants a slot to ask.
    fn want(&mut self, slot: Slot, now: Time) {
        let slot = &mut self.slots[slot.index()];
        if slot.on.is_some() {
            slot.wanted.get_or_insert(now);
        }
    }

    /// A slot asks.
    fn answered(&mut self, slot: Slot, why: Why, now: Time) {
        if let Some(since) = self.slots[slot.index()].wanted.take()
            && why != Why::Free
        {
            self.counts.kicks.record(now.since(since));
        }
    }

    /// Who was on the slot, and who is from now on.
    fn account(&mut self, slot: Slot, why: Why, decision: Decision, now: Time) {
        let SlotEntry { on: before, lender, lease_end, .. } = self.slots[slot.index()];
        let next = decision.run.map(|lease| lease.vcpu);
        let stays = before.is_some() && before == next && !matches!(why, Why::Block | Why::Retire);
        if let Some(vcpu) = before {
            self.charge(vcpu, lender, lease_end, now);
            if let Why::Yield(y) = why {
                self.entry(vcpu).account.yields.count(y.wait, stays);
                self.counts.yields.count(y.wait, stays);
            }
            match why {
                _ if stays => {}
                Why::Block => self.entry(vcpu).enter(State::Idle, now),
                Why::Retire => self.forget(vcpu),
                _ => self.entry(vcpu).enter(State::Waiting, now),
            }
        }
        if !stays && let Some(vcpu) = next {
            self.put_on(slot, vcpu, now);
        }
        let until = decision.run.map_or(Time::NEVER, |lease| lease.until);
        let passed_on = matches!(why, Why::Yield(_)) && !stays && until == lease_end && until != Time::NEVER;
        let entry = &mut self.slots[slot.index()];
        if passed_on {
            entry.lender = lender.or(before).filter(|lender| Some(*lender) != next);
        } else if !stays || until != lease_end {
            entry.lender = None;
        }
        (entry.on, entry.lease_end) = (next, until);
        entry.last = next.or(entry.last);
    }

    /// A vCPU ran up to now.
    fn charge(&mut self, vcpu: VcpuId, lender: Option<VcpuId>, lease_end: Time, now: Time) {
        let entry = self.entry(vcpu);
        let over = now.since(lease_end.max(entry.since));
        let ran = entry.settle(now);
        entry.account.overrun += over;
        if let Some(lender) = lender {
            entry.account.borrowed += ran;
            // The lender may have ended.
            if let Some(Some(lender)) = self.vcpus.get_mut(lender.index()) {
                lender.account.lent += ran;
            }
        }
    }

    /// A vCPU is put on a slot.
    fn put_on(&mut self, slot: Slot, vcpu: VcpuId, now: Time) {
        let switched = self.slots[slot.index()].last.is_some_and(|last| last != vcpu);
        self.counts.switches += u64::from(switched);
        let entry = self.vcpus[vcpu.index()].as_mut().expect("a policy picks vCPUs that were added");
        let moved = entry.last.is_some_and(|last| last != slot);
        let waited = entry.settle(now);
        entry.state = State::Running;
        entry.account.waits.record(waited);
        entry.account.turns += 1;
        entry.account.migrations += u64::from(moved);
        self.counts.migrations += u64::from(moved);
        entry.last = Some(slot);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
