//! The ledger: everything that passes between a driver and its policy goes through here, is accounted and recorded.
//!
//! A [`Ledger`] holds a domain's policy. It has the policy's methods, and hands each question on; from questions and
//! answers it knows at every moment which vCPU runs, waits or idles, and keeps its [`Account`], so that no driver
//! need count anything that follows from them. Each is also an [`Event`] in the [`Trace`].
//!
//! What can be told from events alone: [`Spans`] of what each vCPU did, [`Figures`], [why] a vCPU waited, and whether
//! another policy object answers the same ([`Replay`]).
//!
//! It decides nothing, and changes one thing only: the times it hands on are strictly increasing, a nanosecond apart at
//! least, so that events have one order, and a policy that is asked the same again answers the same.
//!
//! The caller of a ledger's methods holds the domain's lock. A [`Trace`] is read without it.

mod account;
mod books;
mod describe;
mod event;
mod figures;
mod look;
mod replay;
mod ring;
mod spans;
mod totals;
mod usage;
pub mod why;

pub use account::{Account, Outcomes, Yielded};
pub use books::Counts;
pub use describe::describe;
pub(crate) use describe::span;
pub use event::{Event, WORDS, What};
pub use figures::{Figures, VcpuFigures};
pub use look::Seen;
pub use replay::{Difference, Replay, Stop};
pub use ring::Ring;
pub use spans::{Began, Doing, Span, Spans};
pub use totals::{Totals, Yields};
pub use usage::Usage;

use crate::attributes::Attributes;
use crate::ids::{Slot, VcpuId};
use crate::policy::{Decision, Front, Placement, Policy, Progress, Resumed, Spare, Traveller, Why, YieldCounts};
use crate::time::{Nanos, Time};
use account::Entry;
use books::Books;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Events that a domain keeps of each slot: half a megabyte.
pub const KEPT: usize = 1 << 14;

/// Whether events are recorded at all: the feature `trace`.
pub const RECORDS: bool = cfg!(feature = "trace");

/// The longest time that an event has room for. What the host [takes](What::Taken) beyond it at once counts as run.
const LONGEST_TAKEN: Nanos = Nanos(u32::MAX as u64);

/// A policy with its accounts.
pub struct Ledger<P = Box<dyn Policy>> {
    policy: P,
    /// The domain's number of the policy's first slot.
    first: u16,
    books: Books,
    trace: Arc<Trace>,
    /// All events, if they are kept.
    all: Option<Vec<Event>>,
    /// The latest time handed on.
    now: Time,
}

impl<P> fmt::Debug for Ledger<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger").field("books", &self.books).field("now", &self.now).finish_non_exhaustive()
    }
}

/// A vCPU between two shards.
#[derive(Debug)]
#[must_use = "it is nowhere"]
pub struct Departed {
    vcpu: VcpuId,
    traveller: Traveller,
    entry: Box<Entry>,
    at: Time,
}

impl Departed {
    /// The vCPU.
    pub fn vcpu(&self) -> VcpuId {
        self.vcpu
    }

    /// Whether it is queued for a slot; if not, it is blocked.
    pub fn queued(&self) -> bool {
        self.traveller.queued
    }
}

/// The latest events of a domain.
#[derive(Debug)]
pub struct Trace(Box<[Ring]>);

impl Trace {
    /// Of so many slots, without events. It keeps up to `kept` events of each.
    pub fn new(slots: usize, kept: usize) -> Self {
        Self((0..slots).map(|_| Ring::new(kept)).collect())
    }

    /// The rings, one for each slot; an event lies in the ring of the slot that it is about, or of the slot of its
    /// vCPU.
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

    fn push(&self, slot: Slot, event: &Event) {
        if RECORDS {
            self.0[slot.index()].push(event);
        }
    }
}

impl<P: Policy> Ledger<P> {
    /// A ledger of this policy, which knows of no vCPU yet and whose slots are all idle. It keeps up to `kept` events
    /// of each slot.
    pub fn new(policy: P, slots: usize, kept: usize) -> Self {
        Self::of_shard(policy, Slot(0)..Slot(slots as u16), Arc::new(Trace::new(slots, kept)))
    }

    /// A ledger of a policy for some of a domain's slots, as [`new`](Self::new). The domain's ledgers share a trace.
    pub fn of_shard(policy: P, slots: Range<Slot>, trace: Arc<Trace>) -> Self {
        Self { policy, first: slots.start.0, books: Books::of_shard(slots), trace, all: None, now: Time(0) }
    }

    /// The events, for readers without the domain's lock.
    pub fn trace(&self) -> Arc<Trace> {
        Arc::clone(&self.trace)
    }

    /// This ledger, but keeping every event, for simulations: it allocates as it goes.
    pub fn keeping_all(self) -> Self {
        Self { all: Some(Vec::new()), ..self }
    }

    /// All events so far, if they are kept.
    pub fn all(&self) -> Option<&[Event]> {
        self.all.as_deref()
    }

    /// The policy, to be looked at.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// The latest time handed on.
    pub fn now(&self) -> Time {
        self.now
    }

    /// As [`Policy::add`].
    pub fn add(&mut self, vcpu: VcpuId, attributes: Attributes, now: Time) {
        let now = self.advance(now);
        self.policy.add(vcpu, attributes, now);
        self.books.added(vcpu, attributes, now);
        let Attributes { nice, class, group } = attributes;
        let slot = Slot(self.first);
        self.record(None, now, What::Add { vcpu, nice, class, group, slot });
    }

    /// As [`Policy::remove`].
    pub fn remove(&mut self, vcpu: VcpuId, now: Time) {
        let now = self.advance(now);
        self.keep_throttled(vcpu, now);
        self.policy.remove(vcpu);
        self.books.removed(vcpu, now);
        self.record(None, now, What::Remove { vcpu });
    }

    /// As [`Policy::wake`], by the vCPU that [`Policy::woken_by`] is told of.
    pub fn wake(&mut self, vcpu: VcpuId, by: Option<VcpuId>, now: Time) -> Placement {
        let now = self.advance(now);
        by.into_iter().for_each(|waker| self.policy.woken_by(vcpu, waker));
        let placement = self.policy.wake(vcpu, now).plus(self.first);
        self.books.woken(vcpu, placement, now);
        let slot = placement.slot().or_else(|| self.books.last_slot(vcpu));
        self.record(slot, now, What::Wake { vcpu, by, placement });
        placement
    }

    /// As [`Policy::next`].
    pub fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        let now = self.advance(now);
        let vcpu = self.books.on(slot);
        if let (Why::Retire, Some(vcpu)) = (why, vcpu) {
            self.keep_throttled(vcpu, now);
        }
        let mut decision = self.policy.next(self.local(slot), why, now);
        decision.kick = decision.kick.map(|slot| Slot(slot.0 + self.first));
        self.books.asked(slot, why, decision, now);
        self.record(Some(slot), now, What::Ask { slot, vcpu, why, decision });
        decision
    }

    /// As [`Policy::taken`], for the vCPU that is on the slot.
    pub fn taken(&mut self, slot: Slot, time: Nanos, now: Time) {
        let now = self.advance(now);
        let time = self.books.taken(slot, time.min(LONGEST_TAKEN), now);
        self.policy.taken(self.local(slot), time);
        self.record(Some(slot), now, What::Taken { slot, time });
    }

    /// As [`Policy::overran`].
    pub fn overran(&mut self, slot: Slot, now: Time) {
        let now = self.advance(now);
        self.policy.overran(self.local(slot));
        self.record(Some(slot), now, What::Overran { slot });
    }

    /// As [`Policy::charge`]. A vCPU that is not known pays nothing.
    pub fn charge(&mut self, vcpu: VcpuId, time: Nanos, now: Time) {
        let mut left = time;
        while left > Nanos::ZERO && self.books.charged(vcpu, left.min(LONGEST_TAKEN)) {
            let (now, time) = (self.advance(now), left.min(LONGEST_TAKEN));
            self.policy.charge(vcpu, time, now);
            self.record(self.books.last_slot(vcpu), now, What::Charge { vcpu, time });
            left = left - time;
        }
    }

    /// As [`Policy::lets_work`].
    pub fn lets_work(&self, vcpu: VcpuId) -> Time {
        self.policy.lets_work(vcpu)
    }

    /// As [`Policy::steals`].
    pub fn steals(&mut self, slot: Slot, thief: VcpuId, now: Time) -> bool {
        let now = self.advance(now);
        let taken = self.policy.steals(self.local(slot), thief, now);
        if taken {
            self.books.stolen(slot, thief);
        }
        self.record(Some(slot), now, What::Steal { slot, thief, taken });
        taken
    }

    /// As [`Policy::alarm`].
    pub fn alarm(&self) -> Time {
        self.policy.alarm()
    }

    /// As [`Policy::tick`].
    pub fn tick(&mut self, now: Time) -> Option<Resumed> {
        let now = self.advance(now);
        let Resumed { vcpu, placement } = self.policy.tick(now)?;
        let placement = placement.plus(self.first);
        self.books.resumed(placement, now);
        let slot = placement.slot().or_else(|| self.books.last_slot(vcpu));
        self.record(slot, now, What::Resume { vcpu, placement });
        Some(Resumed { vcpu, placement })
    }

    /// As [`Policy::spare`].
    pub fn spare(&self) -> Option<Spare> {
        self.policy.spare()
    }

    /// As [`Policy::stands`].
    pub fn stands(&self, vcpu: VcpuId) -> Option<u64> {
        self.policy.stands(vcpu)
    }

    /// As [`Policy::progress`].
    pub fn progress(&self) -> Progress {
        self.policy.progress()
    }

    /// As [`Policy::follows`].
    pub fn follows(&self, vcpu: VcpuId) -> Option<VcpuId> {
        self.policy.follows(vcpu)
    }

    /// As [`Policy::keeps_up`].
    pub fn keeps_up(&mut self, front: Front, now: Time) {
        let now = self.advance(now);
        self.policy.keeps_up(front, now);
        let slot = Slot(self.first);
        self.record(Some(slot), now, What::KeepUp { slot, front });
    }

    /// As [`Policy::departs`]. The vCPU's account goes with it.
    pub fn departs(&mut self, vcpu: VcpuId, now: Time) -> Option<Departed> {
        let at = self.advance(now);
        let traveller = self.policy.departs(vcpu, at)?;
        self.record(None, at, What::Depart { vcpu });
        Some(Departed { vcpu, traveller, entry: self.books.departs(vcpu), at })
    }

    /// As [`Policy::arrives`].
    pub fn arrives(&mut self, departed: Departed, slot: Slot, now: Time) -> Option<Placement> {
        let Departed { vcpu, traveller, entry, at } = departed;
        let now = self.advance(now.max(at + Nanos(1)));
        let attributes = entry.attributes;
        self.books.arrives(vcpu, entry);
        let placement = self.policy.arrives(vcpu, attributes, traveller, self.local(slot), now);
        let placement = placement.map(|placement| placement.plus(self.first));
        placement.into_iter().for_each(|placement| self.books.resumed(placement, now));
        self.record(Some(slot), now, What::Arrive { vcpu, slot, placement });
        placement
    }

    /// As [`Policy::waiting`].
    pub fn waiting(&self) -> usize {
        self.policy.waiting()
    }

    /// A vCPU that has just been reported as blocked had done nothing on its slot since then.
    pub fn idled_since(&mut self, vcpu: VcpuId, since: Time) {
        self.books.idled(vcpu, since);
        let now = self.advance(self.now);
        self.record(self.books.last_slot(vcpu), now, What::Idled { vcpu, since });
    }

    /// How long a vCPU has run in all, up to now.
    pub(crate) fn run_of(&self, vcpu: VcpuId, now: Time) -> Nanos {
        self.books.run_of(vcpu, now.max(self.now))
    }

    /// How long a vCPU has waited in all.
    pub fn waited(&self, vcpu: VcpuId) -> Nanos {
        self.books.waited(vcpu)
    }

    /// How much the host has taken from a vCPU in all, as far as it was told here.
    pub fn taken_from(&self, vcpu: VcpuId) -> Nanos {
        self.books.taken_from(vcpu)
    }

    /// A vCPU's account up to now; `None` if there is no such vCPU. That of one that has ended stays until it is
    /// [taken](Self::close), or its id is used again.
    pub fn account_of(&self, vcpu: VcpuId, now: Time) -> Option<Account> {
        let now = now.max(self.now);
        let account = self.books.account_of(vcpu, now)?;
        // What a policy has forgotten is in the books.
        let throttled = self.policy.throttled(vcpu, now).time.max(account.throttled);
        Some(Account { throttled, ..account })
    }

    /// The vCPU on each slot, in order.
    pub fn placed(&self) -> impl Iterator<Item = Option<VcpuId>> + '_ {
        self.books.on_slots()
    }

    /// The last account of a vCPU that has retired or was removed, of which the ledger knows nothing from then on.
    pub fn close(&mut self, vcpu: VcpuId) -> Account {
        self.books.close(vcpu)
    }

    /// Counts of the domain.
    pub fn counts(&self) -> &Counts {
        self.books.counts()
    }

    /// As [`Policy::yield_counts`].
    pub fn yield_counts(&self) -> Option<YieldCounts> {
        self.policy.yield_counts()
    }

    /// Appends the vCPUs whose ids lie among the `most` from this one on. Returns the id with which the next stretch
    /// begins, `None` if this was the last. It reads the ledger's own books: a policy that forgets a waiting vCPU
    /// cannot hide it.
    pub fn look(&self, from: VcpuId, most: usize, seen: &mut Vec<Seen>) -> Option<VcpuId> {
        let before = seen.len();
        let next = look::look(&self.books, from, most, seen);
        seen[before..].iter_mut().for_each(|seen| seen.owes = self.policy.owes(seen.vcpu, self.now));
        next
    }

    /// What the policy knows of a vCPU.
    pub(crate) fn attributes_of(&self, vcpu: VcpuId) -> Option<Attributes> {
        self.books.attributes_of(vcpu)
    }

    /// The policy is about to forget a vCPU.
    fn keep_throttled(&mut self, vcpu: VcpuId, now: Time) {
        self.books.throttled(vcpu, self.policy.throttled(vcpu, now).time);
    }

    fn advance(&mut self, now: Time) -> Time {
        self.now = now.max(self.now + Nanos(1));
        self.now
    }

    fn local(&self, slot: Slot) -> Slot {
        Slot(slot.0 - self.first)
    }

    fn record(&mut self, slot: Option<Slot>, time: Time, what: What) {
        let event = Event { time, what };
        // A vCPU that came from another shard ran on one of its slots, whose ring is not written here.
        let own = slot.filter(|&slot| self.books.has(slot));
        self.trace.push(own.unwrap_or(Slot(self.first)), &event);
        if let Some(all) = &mut self.all {
            all.push(event);
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
