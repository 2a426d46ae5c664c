//! Decisions, under the domain's lock: what the policy is told, and what its answers mean for slots and threads.
//!
//! Invariant: outside the lock, a slot's word is `idle` exactly if no vCPU is on it here; else that vCPU's: held,
//! handed or free. What needs a system call, to wake, bind or kick a thread, is put into [`Acts`] and done once the
//! lock is free.

use super::acts::{ACTS_OF_A_DECISION, Act, Acts};
use super::locked_state::LockedState;
use super::record::Record;
use super::shared::{Shared, Stopped};
use crate::ids::{Slot, VcpuId};
use crate::policy::{Decision, Lease, Placement, Why};
use crate::slot::Word;
use crate::sync::Ordering;
use crate::time::{Nanos, Time};

/// What becomes of a vCPU that asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It goes on after this pause, until then.
    GoesOn { until: Time, pause: Nanos },
    /// It waits for an event.
    Blocked,
    /// Its turn is over.
    Queued,
    /// It has ended.
    Retired,
}

impl<W: Word> Shared<W> {
    /// Tells the policy of vCPUs that napped, and lets it fill their slots. True: there are more, for another turn.
    pub(super) fn settle(&self, state: &mut LockedState, now: Time, acts: &mut Acts) -> bool {
        loop {
            if acts.remaining_capacity() < 3 * ACTS_OF_A_DECISION {
                return true;
            }
            let Some(slot) = self.gate(state.shard).next_free() else { return false };
            let Some(vcpu) = self.slots[slot.index()].word.settle() else { continue };
            let record = self.records.of(vcpu);
            record.events.settle();
            state.leaves(slot, vcpu);
            let decision = state.ledger.next(slot, Why::Block, now);
            state.ledger.idled_since(vcpu, record.naps.settle());
            self.follow(state, slot, decision, acts);
        }
    }

    /// Publishes whether a vCPU waits. True: there is more to settle, in another turn.
    pub(super) fn publish(&self, state: &mut LockedState, now: Time, acts: &mut Acts) -> bool {
        while self.gate(state.shard).publish(state.ledger.waiting() > 0) {
            if self.settle(state, now, acts) {
                return true;
            }
        }
        self.division.publish(state.shard, &mut state.ledger, &mut state.known);
        false
    }

    /// Completes a wake whose event found the vCPU blocked. False: another thread has.
    pub(super) fn unblock(
        &self,
        state: &mut LockedState,
        vcpu: VcpuId,
        by: Option<VcpuId>,
        now: Time,
        acts: &mut Acts,
    ) -> bool {
        if !self.records.of(vcpu).events.unblock() {
            return false;
        }
        self.division.whereabouts.waits(vcpu, true);
        let placement = state.ledger.wake(vcpu, by, now);
        self.place(state, placement, now, acts);
        true
    }

    /// Does what is to be done for a vCPU that went there.
    pub(super) fn place(&self, state: &mut LockedState, placement: Placement, now: Time, acts: &mut Acts) {
        match placement {
            Placement::Run(slot) => {
                let decision = state.ledger.next(slot, Why::Free, now);
                self.follow(state, slot, decision, acts);
            }
            Placement::Preempt(slot) | Placement::Queue(Some(slot)) => self.stamp(state, slot, acts),
            Placement::Queue(None) | Placement::Held => {}
        }
    }

    /// The policy's answer for the vCPU that holds a slot.
    pub(super) fn answer(
        &self,
        state: &mut LockedState,
        slot: Slot,
        stopped: Stopped,
        now: Time,
        acts: &mut Acts,
    ) -> Answer {
        let vcpu = state.on(slot).expect("a vCPU that asks is on its slot");
        self.slots[slot.index()].word.acknowledge();
        let why = final_reason(self.records.of(vcpu), stopped, now);
        let decision = state.ledger.next(slot, why, now);
        let goes_on = decision.run.filter(|lease| lease.vcpu == vcpu && why != Why::Retire);
        if let Some(lease) = goes_on {
            decision.kick.into_iter().for_each(|slot| self.stamp(state, slot, acts));
            return Answer::GoesOn { until: lease.until, pause: decision.pause };
        }
        state.leaves(slot, vcpu);
        let answer = match why {
            Why::Block => Answer::Blocked,
            Why::Retire => Answer::Retired,
            _ => Answer::Queued,
        };
        self.division.whereabouts.waits(vcpu, answer == Answer::Queued);
        self.follow(state, slot, decision, acts);
        answer
    }

    /// Does what was decided for a slot that no vCPU is on.
    pub(super) fn follow(&self, state: &mut LockedState, slot: Slot, decision: Decision, acts: &mut Acts) {
        decision.kick.into_iter().for_each(|slot| self.stamp(state, slot, acts));
        match decision.run {
            Some(lease) => self.hand(state, slot, lease, acts),
            None => {
                self.slots[slot.index()].word.vacate();
                self.tells_busy(state, slot, false);
            }
        }
    }

    /// A slot idles from now on, or no longer. A shard says so only while the slot's word does.
    fn tells_busy(&self, state: &mut LockedState, slot: Slot, busy: bool) {
        let before = state.slot(slot).map(|slot| std::mem::replace(&mut slot.busy, busy));
        if self.division.board.is_needed() && before != Some(busy) {
            self.division.board.idles(state.shard, !busy);
        }
    }

    fn hand(&self, state: &mut LockedState, slot: Slot, lease: Lease, acts: &mut Acts) {
        let Lease { vcpu, until } = lease;
        let entry = state.entry(vcpu);
        let bind = entry.bound != Some(slot);
        (entry.on, entry.bound) = (Some(slot), Some(slot));
        state.puts_on(slot, Some(vcpu));
        self.division.whereabouts.waits(vcpu, false);
        self.tells_busy(state, slot, true);
        // The wait ends when the ledger says: a moment after the question, if it had two things to note.
        self.records.of(vcpu).lease(until, state.ledger.now(), state.ledger.waited(vcpu));
        self.slots[slot.index()].word.hand(vcpu);
        acts.push(Act::Grant { vcpu, slot, bind });
    }

    /// Stamps a slot, so that its vCPU asks.
    fn stamp(&self, state: &LockedState, slot: Slot, acts: &mut Acts) {
        if let Some(vcpu) = state.on(slot)
            && self.slots[slot.index()].word.want()
        {
            acts.push(Act::Kick(self.records.of(vcpu).thread()));
        }
    }
}

/// Why the policy is asked, now that nothing can change any more: the vCPU may have been retired meanwhile, or need not
/// wait.
fn final_reason(record: &Record, stopped: Stopped, now: Time) -> Why {
    if record.retiring.load(Ordering::Relaxed) {
        return Why::Retire;
    }
    if stopped.why == Why::Block {
        if stopped.until <= now {
            record.events.use_up();
            return Why::Check;
        }
        if !record.events.block() {
            return Why::Check;
        }
    }
    stopped.why
}
