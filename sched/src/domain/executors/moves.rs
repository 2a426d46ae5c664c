//! vCPUs that go from one shard to another: what only executors do.

use super::shared::{Act, Entry, LockedState, Shared};
use crate::domain::division::Division;
use crate::domain::ledger_lock::LedgerGuard;
use crate::domain::moves::Moves;
use crate::ids::{Shard, Slot, VcpuId};
use crate::ledger::Departed;
use crate::shards::ShardPlan;
use crate::sync::Ordering;
use crate::time::monotonic;

impl Moves for Shared {
    type State = LockedState;
    type Entry = Box<Entry>;
    type Mover = ();

    fn division(&self) -> &Division {
        &self.division
    }

    fn lock(&self, shard: Shard) -> LedgerGuard<'_, LockedState> {
        self.shards[shard.index()].state.lock()
    }

    fn ends(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    fn knows(state: &LockedState, vcpu: VcpuId) -> bool {
        state.vcpus.get(vcpu.index()).is_some_and(Option::is_some)
    }

    fn takes_out(&self, from: Shard, state: &mut LockedState, vcpu: VcpuId) -> Box<Entry> {
        let mut entry = state.vcpus[vcpu.index()].take().expect("a vCPU of the ledger is known");
        // Blocked, it has a deadline perhaps: it is on its way to be woken.
        if let Some(watcher) = entry.deadline.take() {
            state.deadlines(watcher).remove(vcpu);
        }
        self.publish(from, state);
        entry
    }

    fn takes_in(&self, slot: Slot, departed: Departed, entry: Box<Entry>, (): ()) {
        let to = self.division.plan.of(slot);
        let (vcpu, queued) = (departed.vcpu(), departed.queued());
        let acts = {
            let mut state = self.lock(to);
            state.make_room(vcpu);
            let placement = state.ledger.arrives(departed, slot, monotonic());
            state.vcpus[vcpu.index()] = Some(entry);
            self.division.whereabouts.comes(vcpu, to, queued);
            self.publish(to, &mut state);
            [placement.and_then(super::alarm::placed), self.tell_watcher(&mut state)]
        };
        // The slot asks next.
        let others = acts.into_iter().flatten().filter(|act| act.slot() != slot);
        others.for_each(|act| self.perform(act, None));
    }
}

impl Shared {
    /// An idle slot takes a vCPU from another shard, if one waits there. True: it did, and the slot has to ask.
    pub(super) fn relieves(&self, slot: Slot) -> bool {
        let Division { plan, board, .. } = &self.division;
        board.is_needed() && board.nearest_spare(plan.of(slot)).is_some_and(|other| self.brings_next(slot, other, ()))
    }

    /// An idle slot of another shard, to which a vCPU of this one should go.
    pub(super) fn relief(&self, shard: Shard, state: &LockedState) -> Option<Act> {
        let Division { plan, board, .. } = &self.division;
        if !board.is_needed() || state.ledger.spare().is_none() {
            return None;
        }
        self.idle_slot(plan, board.nearest_idle(shard)?)
    }

    /// A slot of this shard ceases to idle. If a vCPU that waits in another shard had called it, this one has to look.
    pub(super) fn passes_call_on(&self, shard: Shard) -> Option<Act> {
        let Division { plan, board, .. } = &self.division;
        if !board.is_needed() || !board.has_spare() {
            return None;
        }
        let near = [Some(shard), board.nearest_idle(shard)];
        near.into_iter().flatten().find_map(|shard| self.idle_slot(plan, shard))
    }

    fn idle_slot(&self, plan: &ShardPlan, shard: Shard) -> Option<Act> {
        let slots = plan.slots(shard);
        let idles = |slot: &Slot| self.slots[slot.index()].word.is_vacant();
        (slots.start.0..slots.end.0).map(Slot).find(idles).map(Act::Rouse)
    }
}
