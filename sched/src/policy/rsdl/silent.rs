//! Yields that say nothing of what they wait for.
//!
//! A vCPU that waits for the next ticket of a lock, or for an answer, cannot be told from one that waits for the ticket
//! after next. Run in turn, each spins for its limit in vain and yields. As all go to the tail, the run queue is never
//! put in the order of the tickets: of sixteen lockers half a round looks in vain for each lock taken, for ever.
//!
//! But how long a vCPU runs until it yields tells whether it *made progress*. One that did not always runs equally
//! long: as long as its spinning takes. That length is learnt ([`Look`](super::look::Look)). From it follow two rules:
//!
//! 1. A vCPU that made progress goes to the tail. One that did not keeps its place. So the run queue is kept in the
//!    order in which the vCPUs last made progress, which is the order of the tickets they have drawn since.
//! 2. A vCPU that made no progress does not run again until another has made progress, and may have released something,
//!    or until all have run.
//!
//! A mistake costs one round: the place is wrong until the vCPU next makes progress. Work that is short against the
//! spinning, or a host that takes the pCPU away again and again, makes mistakes frequent. Then the run queue is as good
//! as one in turn.
//!
//! Somewhere among those that wait may be one that computes and is what all of them wait for: it takes part by its age
//! as soon as the staircase would not prefer the others.

use super::limits::REACH;
use super::matrix::Stair;
use super::run_queue::Join;
use super::state::Rsdl;
use crate::ids::{Slot, VcpuId};
use crate::policy::decision::Decision;
use crate::policy::queue::Kind;
use crate::time::Time;

/// How far below the head a vCPU may stand and still be asked before it: one of all that wait must be the one.
pub(super) const WAITERS_REACH: Stair = 2 * REACH;

impl Rsdl {
    /// Whether the vCPU that yields on this slot made progress since it was given it.
    pub(super) fn got_on(&mut self, slot: Slot, current: VcpuId) -> bool {
        let s = &self.slots[slot.index()];
        let ran = s.charged.since(s.since);
        self.vcpu(current).look.got_on(ran)
    }

    /// A yield that says nothing, and is not forgiven.
    pub(super) fn says_nothing(&mut self, slot: Slot, current: VcpuId, got_on: bool, now: Time) -> Decision {
        self.progress += u64::from(got_on);
        self.recalls(slot);
        self.mark_waiting(current, None);
        let join = if got_on { Join::Tail } else { Join::InVain };
        self.give_turn(slot, current, join, now)
    }

    /// Behind all others of its stair and the head's, so that the head runs, wherever it stands. If the head only waits
    /// as well, the vCPU that has waited longest within reach runs.
    pub(super) fn give_turn(&mut self, slot: Slot, current: VcpuId, join: fn(Stair) -> Join, now: Time) -> Decision {
        self.pulls_for_yield(slot, current);
        let head = self.queue(slot).staircase.lowest().unwrap_or(0);
        self.enqueue(current, join(head));
        let at_most = self.vcpu(current).stair;
        match self.longest_waiting(slot).or_else(|| self.pick(slot, at_most)) {
            Some(next) => self.install_fresh(slot, next, now),
            None => self.go_on(slot, current),
        }
    }

    /// Those that looked in vain may look again, if a vCPU has made progress since, wherever it was.
    pub(super) fn recalls(&mut self, slot: Slot) {
        let q = &mut self.queues[slot];
        if q.recalled != self.progress {
            q.recalled = self.progress;
            q.staircase.recall(&mut self.nodes);
        }
    }

    /// If the head waits, takes the vCPU within reach that has waited longest out of the slot's queue, or out of
    /// another slot's: all that wait may wait for the same.
    fn longest_waiting(&mut self, slot: Slot) -> Option<VcpuId> {
        let q = &self.queues[slot];
        let (head, stair) = q.staircase.head(&self.nodes)?;
        let highest = stair.max(q.served) + WAITERS_REACH;
        if q.rt.len() > 0 || !self.vcpu(head).waits {
            return None;
        }
        let elsewhere = self.another_queue(slot).and_then(|other| {
            self.recalls(other);
            self.queues[other].staircase.oldest_of(&self.nodes, Kind::Waiting, highest)
        });
        let q = &mut self.queues[slot];
        let waiting = q.staircase.oldest_of(&self.nodes, Kind::Waiting, highest);
        let computing = q.staircase.oldest_of(&self.nodes, Kind::Computing, stair);
        let all = waiting.into_iter().chain(computing).chain(elsewhere);
        let oldest = match all.min_by_key(|&vcpu| self.nodes.place(vcpu)) {
            Some(oldest) => oldest,
            // All have been asked.
            None => {
                q.staircase.recall(&mut self.nodes);
                q.staircase.oldest_of(&self.nodes, Kind::Waiting, highest)?
            }
        };
        self.take(oldest);
        Some(oldest)
    }
}
