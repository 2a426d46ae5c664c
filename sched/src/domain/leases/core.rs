//! Decisions, under the domain's lock: what the policy is told, and what its answers mean for slots and threads.
//!
//! Invariant: outside the lock, a slot's word is `idle` exactly if nobody is on it here; else that vCPU's, held, handed or
//! free. What needs a system call, to wake, bind or kick a thread, is put into [`Acts`] and done once the lock is free.

use super::alarm::Watch;
use super::record::Record;
use super::{Shared, Stopped};
use crate::domain::counts::Tally;
use crate::domain::kick::ThreadId;
use crate::domain::numbers::Numbers;
use crate::ledger::Ledger;
use crate::policy::{Decision, Lease, Placement, Why};
use crate::slot::Word;
use crate::sync::Ordering;
use crate::sync::thread::JoinHandle;
use crate::{Nanos, Slot, Time, Vcpu, VcpuId};
use arrayvec::ArrayVec;

/// Most things to do for others after one turn with the lock.
const ACTS: usize = 16;
/// Room that a decision needs: its own kick, the grant, and the kick of a placement. A turn makes two beside settling, a
/// wake and a steal.
pub(super) const ACTS_OF_A_DECISION: usize = 3;

/// What the lock guards.
pub(super) struct Core {
    pub(super) ledger: Ledger,
    pub(super) numbers: Numbers,
    pub(super) vcpus: Vec<Option<Entry>>,
    pub(super) slots: Box<[SlotEntry]>,
    pub(super) watch: Watch,
    /// What vCPUs that have ended had counted.
    pub(super) ended: Tally,
}

/// A vCPU, as the mechanism knows it.
#[derive(Default)]
pub(super) struct Entry {
    /// The slot that is its own: held, handed to it, or left for a nap.
    pub(super) on: Option<Slot>,
    /// The slot to whose pCPU its thread is bound.
    pub(super) bound: Option<Slot>,
    /// Somebody has tried to steal the slot that was handed to it, and nobody may again before it has run.
    pub(super) robbed: bool,
    pub(super) thread: Option<JoinHandle<()>>,
    /// What its thread left when it ended before the vCPU.
    pub(super) left: Option<Left>,
}

/// A vCPU without a thread.
pub(super) struct Left {
    pub(super) vcpu: Box<dyn Vcpu>,
    /// Its deadline, if it waits for an event.
    pub(super) until: Time,
    /// It waits for one that only it sees.
    pub(super) dozes: bool,
}

/// A slot, as the mechanism knows it.
#[derive(Debug, Clone, Default)]
pub(super) struct SlotEntry {
    pub(super) on: Option<VcpuId>,
}

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

/// Something to do once the lock is free.
#[derive(Debug)]
pub(super) enum Act {
    /// Tell a thread that a slot was handed to it.
    Grant { vcpu: VcpuId, slot: Slot, bind: bool },
    /// Make the vCPU on a stamped slot ask.
    Kick(ThreadId),
}

pub(super) type Acts = ArrayVec<Act, ACTS>;

impl Core {
    pub(super) fn entry(&mut self, vcpu: VcpuId) -> &mut Entry {
        self.vcpus[vcpu.index()].as_mut().expect("the policy names only vCPUs it was told of")
    }

    /// A vCPU that has run gives its slot up.
    fn leaves(&mut self, slot: Slot, vcpu: VcpuId) {
        let entry = self.entry(vcpu);
        (entry.on, entry.robbed) = (None, false);
        self.slots[slot.index()].on = None;
    }

    pub(super) fn is_alive(&self, vcpu: VcpuId) -> bool {
        self.vcpus.get(vcpu.index()).is_some_and(Option::is_some)
    }
}

impl<W: Word> Shared<W> {
    /// Tells the policy of vCPUs that napped, and lets it fill their slots. True: there are more, for another turn.
    pub(super) fn settle(&self, core: &mut Core, now: Time, acts: &mut Acts) -> bool {
        loop {
            if acts.remaining_capacity() < 3 * ACTS_OF_A_DECISION {
                return true;
            }
            let Some(slot) = self.gate.next_free() else { return false };
            let Some(vcpu) = self.slots[slot.index()].word.settle() else { continue };
            let record = self.records.of(vcpu);
            record.events.settle();
            core.leaves(slot, vcpu);
            let decision = core.ledger.next(slot, Why::Block, now);
            core.ledger.idled_since(vcpu, record.naps.settle());
            self.follow(core, slot, decision, now, acts);
        }
    }

    /// Tells everybody whether somebody waits. True: there is more to settle, in another turn.
    pub(super) fn publish(&self, core: &mut Core, now: Time, acts: &mut Acts) -> bool {
        while self.gate.publish(core.ledger.waiting() > 0) {
            if self.settle(core, now, acts) {
                return true;
            }
        }
        false
    }

    /// Completes a wake whose event found the vCPU blocked. False: somebody else has.
    pub(super) fn unblock(&self, core: &mut Core, vcpu: VcpuId, now: Time, acts: &mut Acts) -> bool {
        if !self.records.of(vcpu).events.unblock() {
            return false;
        }
        let placement = core.ledger.wake(vcpu, now);
        self.place(core, placement, now, acts);
        true
    }

    /// Does what is to be done for a vCPU that went there.
    pub(super) fn place(&self, core: &mut Core, placement: Placement, now: Time, acts: &mut Acts) {
        match placement {
            Placement::Run(slot) => {
                let decision = core.ledger.next(slot, Why::Free, now);
                self.follow(core, slot, decision, now, acts);
            }
            Placement::Preempt(slot) | Placement::Queue(Some(slot)) => self.stamp(core, slot, acts),
            Placement::Queue(None) | Placement::Held => {}
        }
    }

    /// The policy's answer for the vCPU that holds a slot.
    pub(super) fn answer(&self, core: &mut Core, slot: Slot, stopped: Stopped, now: Time, acts: &mut Acts) -> Answer {
        let vcpu = core.slots[slot.index()].on.expect("who asks is on its slot");
        self.slots[slot.index()].word.acknowledge();
        let why = final_reason(self.records.of(vcpu), stopped, now);
        let decision = core.ledger.next(slot, why, now);
        let goes_on = decision.run.filter(|lease| lease.vcpu == vcpu && why != Why::Retire);
        if let Some(lease) = goes_on {
            decision.kick.into_iter().for_each(|slot| self.stamp(core, slot, acts));
            return Answer::GoesOn { until: lease.until, pause: decision.pause };
        }
        core.leaves(slot, vcpu);
        self.follow(core, slot, decision, now, acts);
        match why {
            Why::Block => Answer::Blocked,
            Why::Retire => Answer::Retired,
            _ => Answer::Queued,
        }
    }

    /// Does what was decided for a slot that nobody is on.
    pub(super) fn follow(&self, core: &mut Core, slot: Slot, decision: Decision, now: Time, acts: &mut Acts) {
        decision.kick.into_iter().for_each(|slot| self.stamp(core, slot, acts));
        match decision.run {
            Some(lease) => self.hand(core, slot, lease, now, acts),
            None => self.slots[slot.index()].word.vacate(),
        }
    }

    fn hand(&self, core: &mut Core, slot: Slot, lease: Lease, now: Time, acts: &mut Acts) {
        let Lease { vcpu, until } = lease;
        let entry = core.entry(vcpu);
        let bind = entry.bound != Some(slot);
        (entry.on, entry.bound) = (Some(slot), Some(slot));
        core.slots[slot.index()].on = Some(vcpu);
        self.records.of(vcpu).lease(until, now, core.ledger.waited(vcpu));
        self.slots[slot.index()].word.hand(vcpu);
        acts.push(Act::Grant { vcpu, slot, bind });
    }

    /// Stamps a slot, so that its vCPU asks.
    fn stamp(&self, core: &Core, slot: Slot, acts: &mut Acts) {
        if let Some(vcpu) = core.slots[slot.index()].on
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
