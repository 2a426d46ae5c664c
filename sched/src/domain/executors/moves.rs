//! vCPUs that go from one shard to another, by the rules of [`shards`](crate::shards).

use super::shared::{Act, LockedState, Shared};
use crate::domain::ledger_lock::LedgerGuard;
use crate::ids::{Shard, Slot, VcpuId};
use crate::lock::Caller;
use crate::shards::LAG;
use crate::sync::Ordering;
use crate::time::monotonic;
use crate::wait::{Wait, Yield};

impl Shared {
    /// Locks the shard that a vCPU is in.
    pub(super) fn lock_of(&self, vcpu: VcpuId) -> (Shard, LedgerGuard<'_, LockedState>) {
        self.whereabouts.lock_of(vcpu, |shard| self.shards[shard.index()].state.lock())
    }

    /// An idle slot takes a vCPU from another shard, if one waits there. True: it did, and the slot has to ask.
    pub(super) fn relieves(&self, slot: Slot) -> bool {
        if !self.board.is_needed() {
            return false;
        }
        let Some(other) = self.board.nearest_spare(self.plan.of(slot)) else { return false };
        self.brings(slot, other, |state| state.ledger.spare().map(|spare| spare.vcpu))
    }

    /// A slot whose lease has ended takes a vCPU from another shard that is far behind.
    pub(super) fn takes_from_one_behind(&self, slot: Slot) {
        if !self.board.is_needed() {
            return;
        }
        let shard = self.plan.of(slot);
        let own = &self.shards[shard.index()];
        let other = match self.board.head(shard) {
            // None waits here, so one that waits elsewhere shares this slot from now on.
            None => self.board.nearest_spare(shard),
            Some(own_head) => {
                let number = own.probe.fetch_add(1, Ordering::Relaxed);
                let is_behind = |&other: &Shard| self.board.settled(other).is_some_and(|head| head + LAG < own_head);
                let other = Some(self.plan.other(shard, number as usize)).filter(is_behind);
                // One for each stair: two shards that are equally full would change places.
                other.filter(|_| own.took_at.fetch_max(own_head, Ordering::Relaxed) < own_head)
            }
        };
        if let Some(other) = other {
            self.brings(slot, other, |state| state.ledger.spare().filter(|spare| !spare.came).map(|spare| spare.vcpu));
        }
    }

    /// A yield on a slot names a vCPU that waits in another shard: it comes here, if it can be let through here.
    pub(super) fn brings_target(&self, slot: Slot, y: Yield) {
        if let Some((other, target)) = self.target_elsewhere(slot, y) {
            let reach = self.board.reach(self.plan.of(slot));
            let in_reach = |state: &mut LockedState| {
                let stair = state.ledger.stands(target)?;
                (stair <= reach).then_some(target)
            };
            self.brings(slot, other, in_reach);
        }
    }

    /// The vCPU that a yield names, if it waits in another shard.
    pub(super) fn target_elsewhere(&self, slot: Slot, y: Yield) -> Option<(Shard, VcpuId)> {
        let (Wait::Lock(target) | Wait::Message(target)) = y.wait else { return None };
        if !self.board.is_needed() {
            return None;
        }
        let shard = self.whereabouts.waits_in(target)?;
        (shard != self.plan.of(slot)).then_some((shard, target))
    }

    /// A vCPU that does not run comes to the shard of a slot that asks. False: there was none, or it has to stay.
    fn brings(&self, slot: Slot, from: Shard, which: impl FnOnce(&mut LockedState) -> Option<VcpuId>) -> bool {
        let mut state = self.shards[from.index()].state.lock();
        let Some(vcpu) = which(&mut state) else { return false };
        if self.whereabouts.of(vcpu) != Some(from) {
            return false;
        }
        self.brings_locked(slot, from, state, vcpu).is_ok()
    }

    /// As [`brings`](Self::brings), with the lock of the shard that the vCPU is in. Gives it back if that has to stay.
    pub(super) fn brings_locked<'a>(
        &'a self,
        slot: Slot,
        from: Shard,
        mut state: LedgerGuard<'a, LockedState>,
        vcpu: VcpuId,
    ) -> Result<(), LedgerGuard<'a, LockedState>> {
        let Some(departed) = state.ledger.departs(vcpu, monotonic()) else { return Err(state) };
        let queued = departed.queued();
        let mut entry = state.vcpus[vcpu.index()].take().expect("a vCPU of the ledger is known");
        // Blocked, it has a deadline perhaps: it is on its way to be woken.
        if let Some(watcher) = entry.deadline.take() {
            state.deadlines(watcher).remove(vcpu);
        }
        self.whereabouts.leaves(vcpu);
        self.publish(from, &mut state);
        drop(state);

        let to = self.plan.of(slot);
        let acts = {
            let mut state = self.shards[to.index()].state.lock_as(Caller::Normal);
            let now = monotonic();
            state.make_room(vcpu);
            let placement = state.ledger.arrives(departed, slot, now);
            state.vcpus[vcpu.index()] = Some(entry);
            self.whereabouts.comes(vcpu, to, queued);
            self.publish(to, &mut state);
            [placement.and_then(super::alarm::placed), self.tell_watcher(&mut state)]
        };
        self.board.resides(from, false);
        self.board.resides(to, true);
        // The slot asks next.
        let others = acts.into_iter().flatten().filter(|act| act.slot() != slot);
        others.for_each(|act| self.perform(act, None));
        Ok(())
    }

    /// A blocked vCPU that is about to be woken goes to the shard of the vCPU that wakes it, if that one mostly does.
    pub(super) fn follows_waker(&self, vcpu: VcpuId, waker: VcpuId, slot: Slot) {
        let to = self.plan.of(slot);
        if !self.board.is_needed() || self.whereabouts.of(vcpu) == Some(to) {
            return;
        }
        let (from, state) = self.lock_of(vcpu);
        let knows = state.vcpus.get(vcpu.index()).is_some_and(Option::is_some);
        if from != to && knows && self.board.has_room(from, to) && state.ledger.follows(vcpu) == Some(waker) {
            let _stays = self.brings_locked(slot, from, state, vcpu);
        }
    }

    /// An idle slot of another shard, to which a vCPU of this one should go.
    pub(super) fn relief(&self, shard: Shard, state: &LockedState) -> Option<Act> {
        if !self.board.is_needed() || state.ledger.spare().is_none() {
            return None;
        }
        let other = self.board.nearest_idle(shard)?;
        let slots = self.plan.slots(other);
        let idle = (slots.start.0..slots.end.0).map(Slot).find(|slot| self.slots[slot.index()].word.is_vacant())?;
        Some(Act::Rouse(idle))
    }
}
