//! vCPUs that go from one shard to another: what only leases do.
//!
//! Here no thread waits on an idle slot. So a thread that has taken a turn looks itself whether a slot idles in one
//! shard and a vCPU waits in another, and brings them together. A slot that a vCPU has left for a nap is as good as an
//! idle one. That its shard may have some shows on the board, where no lock is needed to say so; and a vCPU does not
//! nap while one waits in another shard.

use super::locked_state::{Entry, LockedState};
use super::shared::{Asker, Shared};
use crate::domain::division::Division;
use crate::domain::ledger_lock::LedgerGuard;
use crate::domain::moves::Moves;
use crate::ids::{Shard, Slot, VcpuId};
use crate::ledger::Departed;
use crate::slot::{SlotWord, Word};
use crate::sync::Ordering;

/// Looks for an idle slot in the nearest shard that says it has one: it may be about to say otherwise.
const LOOKS: usize = 3;

impl<W: Word> Moves for Shared<W> {
    type State = LockedState;
    type Entry = Box<Entry>;
    type Mover = Asker;

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
        state.is_alive(vcpu)
    }

    fn takes_out(&self, from: Shard, state: &mut LockedState, vcpu: VcpuId) -> Box<Entry> {
        // Fewer wait than before: no slot is to be settled for it.
        let _ = self.gate(from).publish(state.ledger.waiting() > 0);
        self.division.publish(from, &mut state.ledger, &mut state.known);
        state.vcpus[vcpu.index()].take().expect("a vCPU of the ledger is known")
    }

    fn takes_in(&self, slot: Slot, departed: Departed, entry: Box<Entry>, me: Asker) {
        let to = self.division.plan.of(slot);
        let (vcpu, queued) = (departed.vcpu(), departed.queued());
        self.turn_locked(self.shards[to.index()].state.lock_as(me.caller), me, |state, now, acts| {
            state.make_room(vcpu);
            state.vcpus[vcpu.index()] = Some(entry);
            self.division.whereabouts.comes(vcpu, to, queued);
            if let Some(placement) = state.ledger.arrives(departed, slot, now) {
                self.place(state, placement, now, acts);
            }
        });
    }
}

impl<W: Word> Shared<W> {
    /// After a turn with the lock of a shard: no slot idles while a vCPU waits in another shard than its own.
    pub(super) fn relieve(&self, shard: Shard, me: Asker) {
        if !self.division.board.is_needed() {
            return;
        }
        let mut at = shard;
        loop {
            let relief = self.relief(at);
            let brought = relief.filter(|&(slot, from)| self.brings_next(slot, from, me));
            at = match brought {
                // Should another vCPU have been faster to take the slot, this one now waits there.
                Some((slot, _)) => self.division.plan.of(slot),
                None if at == shard => return,
                None => shard,
            };
        }
    }

    /// A slot of this shard that idles, and a shard where a vCPU waits; or a slot of another, and this shard.
    fn relief(&self, shard: Shard) -> Option<(Slot, Shard)> {
        let board = &self.division.board;
        let here = || {
            let other = board.nearest_spare(shard)?;
            Some((self.find(shard, SlotWord::is_vacant)?, other))
        };
        let there = || {
            board.head(shard)?;
            Some((self.unused_elsewhere(shard)?, shard))
        };
        here().or_else(there)
    }

    /// A slot of another shard that idles, or was left for a nap.
    fn unused_elsewhere(&self, shard: Shard) -> Option<Slot> {
        let board = &self.division.board;
        let idle = || self.find(board.nearest_idle(shard)?, SlotWord::is_vacant);
        (0..LOOKS).find_map(|_| idle()).or_else(|| {
            while let Some(other) = board.nearest_left(shard) {
                board.leaves(other, false);
                if let Some(slot) = self.find(other, SlotWord::is_free) {
                    board.leaves(other, true);
                    return Some(slot);
                }
            }
            None
        })
    }

    fn find(&self, shard: Shard, which: impl Fn(&SlotWord<W>) -> bool) -> Option<Slot> {
        let slots = self.division.plan.slots(shard);
        (slots.start.0..slots.end.0).map(Slot).find(|slot| which(&self.slots[slot.index()].word))
    }
}
