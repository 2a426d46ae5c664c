//! What the machine's shards do with each other, as the executors of a domain do it.

use super::SimMachine;
use crate::ids::{Shard, Slot, VcpuId};
use crate::policy::{Policy, Why};
use crate::shards::Looks;
use crate::sim::vcpu::Place;
use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};

impl<P: Policy> SimMachine<P> {
    pub(in crate::sim) fn shard_of(&self, slot: usize) -> Shard {
        self.plan.of(Slot(slot as u16))
    }

    /// A shard lets others know what has become of it.
    pub(super) fn publish(&mut self, shard: Shard) {
        if !self.board.is_needed() {
            return;
        }
        let now = self.now;
        let s = &mut self.shards[shard.index()];
        let progress = s.ledger.progress();
        if let Some(front) = self.board.news(shard, &mut s.known, progress) {
            s.ledger.keeps_up(front, now);
            self.now = s.ledger.now();
        }
        self.board.publish(shard, s.ledger.spare(), s.ledger.progress());
    }

    /// A slot idles from now on, or no longer.
    pub(super) fn tells_idle(&self, slot: usize, idles: bool) {
        if self.board.is_needed() {
            self.board.idles(self.shard_of(slot), idles);
        }
    }

    /// A slot without a vCPU takes one from another shard, if one waits there. True: it did.
    pub(super) fn relieves(&mut self, slot: usize) -> bool {
        if !self.board.is_needed() {
            return false;
        }
        let Some(other) = self.board.nearest_spare(self.shard_of(slot)) else { return false };
        let spare = self.shards[other.index()].ledger.spare();
        spare.is_some_and(|spare| self.brings(spare.vcpu.index(), slot))
    }

    /// Takes a vCPU from another shard that is far behind, by [`Looks::behind`].
    pub(super) fn takes_from_one_behind(&mut self, slot: usize, why: Why) {
        let shard = self.shard_of(slot);
        if !self.board.is_needed() || self.shards.len() < 2 {
            return;
        }
        let other = self.shards[shard.index()].looks.behind(&self.board, &self.plan, shard, why);
        let spare = other.and_then(|other| self.shards[other.index()].ledger.spare());
        if let Some(spare) = spare.filter(|&spare| Looks::may_take(&self.board, shard, spare)) {
            self.brings(spare.vcpu.index(), slot);
        }
    }

    /// A yield on a slot names a vCPU that waits in another shard: it comes here.
    pub(super) fn brings_target(&mut self, slot: usize, y: Yield) {
        let (Wait::Lock(target) | Wait::Message(target)) = y.wait else { return };
        if !self.board.is_needed() || !self.waits_elsewhere(slot, target) {
            return;
        }
        let reach = self.board.reach(self.shard_of(slot));
        if self.ledger_of(target.index()).stands(target).is_some_and(|stair| stair <= reach) {
            self.brings(target.index(), slot);
        }
    }

    pub(super) fn waits_elsewhere(&self, slot: usize, target: VcpuId) -> bool {
        let vcpu = self.vcpus.get(target.index());
        vcpu.is_some_and(|vcpu| vcpu.place == Place::Queued && vcpu.shard != self.shard_of(slot))
    }

    /// A vCPU that is woken goes to the shard of the vCPU on this slot, if that one mostly wakes it.
    pub(super) fn follows_waker(&mut self, v: usize, slot: usize, waker: VcpuId) {
        let (from, to) = (self.vcpus[v].shard, self.shard_of(slot));
        let follows = from != to && self.shards[from.index()].ledger.follows(VcpuId(v as u32)) == Some(waker);
        if follows && self.board.has_room(from, to) {
            self.brings(v, slot);
        }
    }

    /// A vCPU that does not run comes to the shard of a slot that asks. False: it has to stay.
    fn brings(&mut self, v: usize, slot: usize) -> bool {
        let (from, to) = (self.vcpus[v].shard, self.shard_of(slot));
        let s = &mut self.shards[from.index()];
        // The slot waits for the other lock first, and then has its own.
        let has = s.lock.enter(self.now);
        self.slots[slot].delayed += has.since(self.now) + s.lock.section();
        self.decisions += 1;
        let departed = s.ledger.departs(VcpuId(v as u32), self.now);
        self.now = s.ledger.now().max(self.now);
        let Some(departed) = departed else { return false };
        self.publish(from);
        let s = &mut self.shards[to.index()];
        let placement = s.ledger.arrives(departed, Slot(slot as u16), self.now);
        self.now = s.ledger.now();
        self.vcpus[v].shard = to;
        self.board.resides(from, false);
        self.board.resides(to, true);
        placement.into_iter().for_each(|placement| self.place(v, placement, Some(slot), Nanos::ZERO));
        self.publish(to);
        true
    }

    /// A vCPU waits in a shard. If another one has an idle slot, that one looks.
    pub(super) fn calls_for_relief(&mut self, shard: Shard, later: Nanos) {
        if !self.board.is_needed() || self.shards[shard.index()].ledger.spare().is_none() {
            return;
        }
        if let Some(other) = self.board.nearest_idle(shard) {
            self.tells_an_idle_slot(other, later);
        }
    }

    /// A slot ceases to idle. If a vCPU that waits in another shard had called it, another idle slot has to look.
    pub(super) fn passes_call_on(&mut self, slot: usize) {
        if self.board.is_needed() && self.board.has_spare() {
            let shard = self.shard_of(slot);
            let near = [Some(shard), self.board.nearest_idle(shard)];
            let _ = near.into_iter().flatten().any(|shard| self.tells_an_idle_slot(shard, Nanos::ZERO));
        }
    }

    /// The first idle slot of a shard looks for a vCPU. False: none idles.
    fn tells_an_idle_slot(&mut self, shard: Shard, later: Nanos) -> bool {
        let mut slots = self.shards[shard.index()].slots.clone();
        let idles = |slot: &usize| {
            let s = &self.slots[*slot];
            s.current.is_none() && s.placed.is_none() && s.told == Time::NEVER
        };
        let idle = slots.find(idles);
        idle.into_iter().for_each(|slot| self.tell(slot, later));
        idle.is_some()
    }
}
