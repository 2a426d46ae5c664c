//! The books: what follows from the questions to a policy and its answers, under any driver.
//!
//! They decide nothing and know no policy. Each question is entered once, in order of time, and so they can be kept
//! from a domain as it runs as well as from its recording.
//!
//! Invariant: every vCPU is in one [`State`] at a time, and its time is accounted up to when it got there.

use super::account::{Account, Entry, State, Yielded};
use crate::attributes::Attributes;
use crate::histogram::Histogram;
use crate::ids::{Slot, VcpuId};
use crate::policy::{Decision, Placement, Why};
use crate::time::{Nanos, Time};
use std::ops::Range;

/// Accounts of all vCPUs, and counts of the domain.
#[derive(Debug)]
pub(super) struct Books {
    vcpus: Vec<Option<Box<Entry>>>,
    /// The number of the first of these slots.
    first: u16,
    slots: Box<[SlotEntry]>,
    counts: Counts,
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

impl Counts {
    /// Adds those of another shard.
    pub fn merge(&mut self, other: &Self) {
        self.switches += other.switches;
        self.migrations += other.migrations;
        self.yields.merge(&other.yields);
        self.kicks.merge(&other.kicks);
    }
}

/// A slot, as the ledger knows it.
#[derive(Debug, Clone)]
struct SlotEntry {
    on: Option<VcpuId>,
    last: Option<VcpuId>,
    lease_end: Time,
    /// The vCPU that passed on the lease on which the slot's vCPU runs, if one did.
    lender: Option<VcpuId>,
    /// Since when the policy wants it to ask.
    wanted: Option<Time>,
}

/// What is entered.
impl Books {
    /// Of so many idle slots.
    pub(super) fn new(slots: usize) -> Self {
        Self::of_shard(Slot(0)..Slot(slots as u16))
    }

    /// Of these idle slots.
    pub(super) fn of_shard(slots: Range<Slot>) -> Self {
        let (first, count) = (slots.start.0, slots.end.index() - slots.start.index());
        let slot = SlotEntry { on: None, last: None, lease_end: Time::NEVER, lender: None, wanted: None };
        Self { vcpus: Vec::new(), first, slots: vec![slot; count].into(), counts: Counts::default() }
    }

    /// A vCPU goes to another shard.
    pub(super) fn departs(&mut self, vcpu: VcpuId) -> Box<Entry> {
        self.vcpus[vcpu.index()].take().expect("a vCPU that departs was added")
    }

    /// A vCPU comes from another shard.
    pub(super) fn arrives(&mut self, vcpu: VcpuId, entry: Box<Entry>) {
        self.make_room(vcpu);
        self.vcpus[vcpu.index()] = Some(entry);
    }

    /// A vCPU was taken in.
    pub(super) fn added(&mut self, vcpu: VcpuId, attributes: Attributes, now: Time) {
        self.make_room(vcpu);
        self.vcpus[vcpu.index()] = Some(Box::new(Entry::new(attributes, now)));
    }

    /// A vCPU that did not run left.
    pub(super) fn removed(&mut self, vcpu: VcpuId, now: Time) {
        self.entry(vcpu).enter(State::Ended, now);
    }

    /// A policy that is about to forget a vCPU held it back for so long.
    pub(super) fn throttled(&mut self, vcpu: VcpuId, time: Nanos) {
        self.entry(vcpu).account.throttled = time;
    }

    /// The last account of a vCPU that has ended, of which nothing is known from then on.
    pub(super) fn close(&mut self, vcpu: VcpuId) -> Account {
        let entry = self.vcpus.get_mut(vcpu.index()).and_then(Option::take);
        entry.map(|entry| entry.account).unwrap_or_default()
    }

    /// A vCPU was woken, and went there.
    pub(super) fn woken(&mut self, vcpu: VcpuId, placement: Placement, now: Time) {
        self.entry(vcpu).enter(State::Waiting, now);
        self.placed(placement, now);
    }

    /// A vCPU that waited because it was held back may go on, and went there.
    pub(super) fn resumed(&mut self, placement: Placement, now: Time) {
        self.placed(placement, now);
    }

    /// A slot asked, and was told this.
    pub(super) fn asked(&mut self, slot: Slot, why: Why, decision: Decision, now: Time) {
        self.answered(slot, why, now);
        self.account(slot, why, decision, now);
        decision.kick.into_iter().for_each(|slot| self.want(slot, now));
    }

    /// A vCPU took a slot that had been handed to another one.
    pub(super) fn stolen(&mut self, slot: Slot, thief: VcpuId) {
        // It has not begun to run, so it has waited all the time.
        let robbed = self.slots[usize::from(slot.0 - self.first)].on.take();
        robbed.into_iter().for_each(|robbed| self.entry(robbed).state = State::Waiting);
        self.entry(thief).account.steals += 1;
    }

    /// Of the time since a slot last asked, the host took so much from the vCPU on it; at most all. Returns how much
    /// that is.
    pub(super) fn taken(&mut self, slot: Slot, time: Nanos, now: Time) -> Nanos {
        let SlotEntry { on, lease_end, .. } = &mut self.slots[usize::from(slot.0 - self.first)];
        *lease_end = *lease_end + time;
        let Some(vcpu) = *on else { return Nanos::ZERO };
        let entry = self.entry(vcpu);
        let time = time.min(now.since(entry.since));
        entry.since = entry.since + time;
        entry.account.taken += time;
        time
    }

    /// A vCPU caused so much CPU time on other threads. False: there is no such vCPU.
    pub(super) fn charged(&mut self, vcpu: VcpuId, time: Nanos) -> bool {
        let entry = self.vcpus.get_mut(vcpu.index()).and_then(Option::as_mut);
        let Some(entry) = entry.filter(|entry| entry.state != State::Ended) else { return false };
        entry.account.devices += time;
        true
    }

    /// A vCPU that has just been reported as blocked had done nothing on its slot since then.
    pub(super) fn idled(&mut self, vcpu: VcpuId, since: Time) {
        let entry = self.entry(vcpu);
        let idled = Nanos(entry.since.since(since).0.min(entry.account.run.0));
        entry.account.run = entry.account.run - idled;
        entry.account.idle += idled;
    }
}

/// What can be read.
impl Books {
    /// Whether a slot is one of these.
    pub(super) fn has(&self, slot: Slot) -> bool {
        slot.0 >= self.first && slot.index() - usize::from(self.first) < self.slots.len()
    }

    /// The vCPU on a slot.
    pub(super) fn on(&self, slot: Slot) -> Option<VcpuId> {
        self.slots[usize::from(slot.0 - self.first)].on
    }

    /// The vCPU on each slot, in order.
    pub(super) fn on_slots(&self) -> impl Iterator<Item = Option<VcpuId>> + '_ {
        self.slots.iter().map(|slot| slot.on)
    }

    /// Where a vCPU ran last.
    pub(super) fn last_slot(&self, vcpu: VcpuId) -> Option<Slot> {
        self.vcpus.get(vcpu.index())?.as_ref()?.last
    }

    /// The vCPUs whose ids lie in this range and that have not ended.
    pub(super) fn stretch(&self, ids: Range<usize>) -> impl Iterator<Item = (VcpuId, &Entry)> {
        let entries = self.vcpus.iter().enumerate().take(ids.end).skip(ids.start);
        let known = entries.filter_map(|(index, entry)| Some((VcpuId(index as u32), entry.as_deref()?)));
        known.filter(|(_, entry)| entry.state != State::Ended)
    }

    /// Above all ids there were.
    pub(super) fn ids(&self) -> usize {
        self.vcpus.len()
    }

    /// What its policy knows of a vCPU.
    pub(super) fn attributes_of(&self, vcpu: VcpuId) -> Option<Attributes> {
        Some(self.vcpus.get(vcpu.index())?.as_ref()?.attributes)
    }

    /// How long a vCPU has run in all, up to now.
    pub(super) fn run_of(&self, vcpu: VcpuId, now: Time) -> Nanos {
        let entry = self.vcpus.get(vcpu.index()).and_then(Option::as_ref);
        entry.map_or(Nanos::ZERO, |entry| match entry.state {
            State::Running => entry.account.run + now.since(entry.since),
            _ => entry.account.run,
        })
    }

    /// How long a vCPU has waited in all.
    pub(super) fn waited(&self, vcpu: VcpuId) -> Nanos {
        self.vcpus.get(vcpu.index()).and_then(Option::as_ref).map_or(Nanos::ZERO, |entry| entry.account.wait)
    }

    /// How much was taken from a vCPU in all.
    pub(super) fn taken_from(&self, vcpu: VcpuId) -> Nanos {
        self.vcpus.get(vcpu.index()).and_then(Option::as_ref).map_or(Nanos::ZERO, |entry| entry.account.taken)
    }

    /// A vCPU's account up to now; `None` if there is no such vCPU.
    pub(super) fn account_of(&self, vcpu: VcpuId, now: Time) -> Option<Account> {
        let mut entry = self.vcpus.get(vcpu.index())?.as_deref()?.clone();
        entry.settle(now);
        Some(entry.account)
    }

    /// Counts of the domain.
    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// What follows.
impl Books {
    fn make_room(&mut self, vcpu: VcpuId) {
        if self.vcpus.len() <= vcpu.index() {
            self.vcpus.resize(vcpu.index() + 1, None);
        }
    }

    fn entry(&mut self, vcpu: VcpuId) -> &mut Entry {
        self.vcpus[vcpu.index()].as_mut().expect("drivers and policies name vCPUs that were added")
    }

    /// A slot may have to ask for a vCPU that went there.
    fn placed(&mut self, placement: Placement, now: Time) {
        if let Placement::Preempt(slot) | Placement::Queue(Some(slot)) = placement {
            self.want(slot, now);
        }
    }

    /// The policy wants a slot to ask.
    fn want(&mut self, slot: Slot, now: Time) {
        let slot = &mut self.slots[usize::from(slot.0 - self.first)];
        if slot.on.is_some() {
            slot.wanted.get_or_insert(now);
        }
    }

    /// A slot asks.
    fn answered(&mut self, slot: Slot, why: Why, now: Time) {
        if let Some(since) = self.slots[usize::from(slot.0 - self.first)].wanted.take()
            && why != Why::Free
        {
            self.counts.kicks.record(now.since(since));
        }
    }

    /// Accounts for a slot's answer: the vCPU that was on it, and the one that is on it from now on.
    fn account(&mut self, slot: Slot, why: Why, decision: Decision, now: Time) {
        let SlotEntry { on: before, lender, lease_end, .. } = self.slots[usize::from(slot.0 - self.first)];
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
                Why::Retire => self.entry(vcpu).enter(State::Ended, now),
                _ => self.entry(vcpu).enter(State::Waiting, now),
            }
        }
        if !stays && let Some(vcpu) = next {
            self.put_on(slot, vcpu, now);
        }
        let until = decision.run.map_or(Time::NEVER, |lease| lease.until);
        let passed_on = matches!(why, Why::Yield(_)) && !stays && until == lease_end && until != Time::NEVER;
        let entry = &mut self.slots[usize::from(slot.0 - self.first)];
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
        let switched = self.slots[usize::from(slot.0 - self.first)].last.is_some_and(|last| last != vcpu);
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
