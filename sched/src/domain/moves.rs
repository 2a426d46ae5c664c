//! vCPUs that go from one shard to another, by the rules of [`shards`](crate::shards): what both mechanisms do.
//!
//! A vCPU is taken out under the lock of its shard, is nowhere for a moment, and is taken in under the lock of the
//! other. No thread holds two locks. Once the threads of a domain are to end, no vCPU sets out any more: one that is on
//! the way arrives, and can be [waited for](Moves::lock_of).

use super::division::Division;
use super::ledger_lock::{HasLedger, LedgerGuard};
use crate::ids::{Shard, Slot, VcpuId};
use crate::ledger::Departed;
use crate::policy::{Spare, Why};
use crate::shards::Looks;
use crate::time::monotonic;
use crate::wait::{Wait, Yield};

/// What the threads of a domain share, as far as it is about moves.
pub(super) trait Moves {
    /// What a shard's lock guards.
    type State: HasLedger;
    /// What is known of a vCPU beside the ledger.
    type Entry;
    /// What has to be known of the thread that moves a vCPU.
    type Mover: Copy;

    fn division(&self) -> &Division;

    fn lock(&self, shard: Shard) -> LedgerGuard<'_, Self::State>;

    /// Whether the threads of the domain are to end.
    fn ends(&self) -> bool;

    /// Whether a vCPU is in a shard.
    fn knows(state: &Self::State, vcpu: VcpuId) -> bool;

    /// Takes out what is known of a vCPU that the ledger has let go, and publishes what has become of the shard.
    fn takes_out(&self, from: Shard, state: &mut Self::State, vcpu: VcpuId) -> Self::Entry;

    /// Takes a vCPU in that comes to the shard of a slot, and does what its placement asks for.
    fn takes_in(&self, slot: Slot, departed: Departed, entry: Self::Entry, mover: Self::Mover);

    /// Locks the shard that a vCPU is in.
    fn lock_of(&self, vcpu: VcpuId) -> (Shard, LedgerGuard<'_, Self::State>) {
        self.division().whereabouts.lock_of(vcpu, |shard| self.lock(shard))
    }

    /// Brings vCPUs of other shards to a slot. It is about to ask its policy, since its vCPU stopped.
    fn brings_before(&self, slot: Slot, why: Why, mover: Self::Mover) {
        if let Why::Yield(y) = why {
            self.brings_target(slot, y, mover);
        }
        self.takes_from_one_behind(slot, why, mover);
    }

    /// Takes a vCPU from another shard that is far behind, by [`Looks::behind`].
    fn takes_from_one_behind(&self, slot: Slot, why: Why, mover: Self::Mover) {
        let division = self.division();
        if division.board.is_needed()
            && let shard = division.plan.of(slot)
            && let Some(other) = division.behind(shard, why)
        {
            let may = |spare: &Spare| Looks::may_take(&division.board, shard, *spare);
            self.brings(slot, other, |state| state.ledger().spare().filter(may).map(|spare| spare.vcpu), mover);
        }
    }

    /// A yield on a slot names a vCPU that waits in another shard: it comes here, if it can be let through here.
    fn brings_target(&self, slot: Slot, y: Yield, mover: Self::Mover) {
        if let Some((other, target)) = self.target_elsewhere(slot, y) {
            let division = self.division();
            let reach = division.board.reach(division.plan.of(slot));
            let in_reach = |state: &mut Self::State| {
                let stair = state.ledger().stands(target)?;
                (stair <= reach).then_some(target)
            };
            self.brings(slot, other, in_reach, mover);
        }
    }

    /// The vCPU that a yield names, if it waits in another shard.
    fn target_elsewhere(&self, slot: Slot, y: Yield) -> Option<(Shard, VcpuId)> {
        let (Wait::Lock(target) | Wait::Message(target)) = y.wait else { return None };
        let division = self.division();
        if !division.board.is_needed() {
            return None;
        }
        let shard = division.whereabouts.waits_in(target)?;
        (shard != division.plan.of(slot)).then_some((shard, target))
    }

    /// The next vCPU of another shard comes to the shard of a slot. False: none waits there, or it has to stay.
    fn brings_next(&self, slot: Slot, from: Shard, mover: Self::Mover) -> bool {
        self.brings(slot, from, |state| state.ledger().spare().map(|spare| spare.vcpu), mover)
    }

    /// A vCPU that does not run comes to the shard of a slot. False: there was none, or it has to stay.
    fn brings(
        &self,
        slot: Slot,
        from: Shard,
        which: impl FnOnce(&mut Self::State) -> Option<VcpuId>,
        mover: Self::Mover,
    ) -> bool {
        let mut state = self.lock(from);
        let Some(vcpu) = which(&mut state) else { return false };
        if self.division().whereabouts.of(vcpu) != Some(from) {
            return false;
        }
        self.brings_locked(slot, from, state, vcpu, mover)
    }

    /// As [`brings`](Self::brings), with the lock of the shard that the vCPU is in.
    fn brings_locked(
        &self,
        slot: Slot,
        from: Shard,
        mut state: LedgerGuard<'_, Self::State>,
        vcpu: VcpuId,
        mover: Self::Mover,
    ) -> bool {
        if self.ends() {
            return false;
        }
        let Some(departed) = state.ledger_mut().departs(vcpu, monotonic()) else { return false };
        let division = self.division();
        division.whereabouts.leaves(vcpu);
        let entry = self.takes_out(from, &mut state, vcpu);
        drop(state);
        self.takes_in(slot, departed, entry, mover);
        division.board.resides(from, false);
        division.board.resides(division.plan.of(slot), true);
        true
    }

    /// A blocked vCPU that is about to be woken goes to the shard of the vCPU that wakes it, if that one mostly does.
    fn follows_waker(&self, vcpu: VcpuId, waker: VcpuId, slot: Slot, mover: Self::Mover) {
        let division = self.division();
        let to = division.plan.of(slot);
        if !division.board.is_needed() || division.whereabouts.of(vcpu) == Some(to) {
            return;
        }
        let (from, state) = self.lock_of(vcpu);
        let follows = || state.ledger().follows(vcpu) == Some(waker);
        if from != to && Self::knows(&state, vcpu) && division.board.has_room(from, to) && follows() {
            self.brings_locked(slot, from, state, vcpu, mover);
        }
    }
}
