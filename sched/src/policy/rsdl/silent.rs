//! Yields that say nothing of what they wait for.
//!
//! Whoever waits for the next ticket of a lock, or for an answer, cannot be told from whoever waits for the one after
//! next. Asked in turn, each spins for its limit in vain and yields, and as everybody goes to the tail, the line is never
//! put in the order of the tickets: of sixteen lockers half a round looks in vain for each lock taken, for ever.
//!
//! But how long a vCPU runs until it yields tells whether it *got on*. One that did not always runs equally long: as long as
//! its spinning takes. That length is learnt ([`Look`]). From it follow two rules:
//!
//! 1. Who got on goes to the tail, and who did not keeps its place. So the line is kept in the order in which the vCPUs last
//!    got on, which is the order of the tickets they have drawn since.
//! 2. Who did not get on is not asked again before another got on, and may have released something, or all have been asked.
//!
//! A mistake costs one round: the place is wrong until the vCPU gets on next. Work that is short against the spinning, or
//! a host that takes the pCPU away again and again, makes mistakes frequent; then the line is as good as one in turn.
//!
//! Somewhere among those that wait may be one that computes and is what all of them wait for: it takes part by its age as
//! soon as the staircase would not prefer the others.

use super::Rsdl;
use super::line::Join;
use super::matrix::Stair;
use super::polite::REACH;
use crate::policy::Decision;
use crate::policy::queue::Kind;
use crate::{Nanos, Slot, Time, VcpuId};

/// How far below the head a vCPU may stand and still be asked before it: one of all that wait must be the one.
pub(super) const WAITERS_REACH: Stair = 2 * REACH;

/// What a vCPU runs from the beginning of its spinning until it yields, when it does not get on (units: ns).
#[derive(Debug, Clone, Copy)]
pub(super) struct Look(Nanos);

impl Look {
    /// So much longer is progress: one part in so many.
    const MARGIN: u64 = 16;
    /// Half of a new length is known after about three looks.
    const LEARN: u64 = 4;
    /// While it gets on at every look, its estimate grows by one part in so many: spinning may have become slower.
    const GROW: u64 = 4096;

    /// As good as infinite: the first looks are in vain until the length is known.
    pub(super) fn unknown() -> Self {
        Self(Nanos::from_millis(1))
    }

    /// Whether a vCPU that ran so long got on; learns from it.
    pub(super) fn got_on(&mut self, ran: Nanos) -> bool {
        let Self(Nanos(look)) = *self;
        let got_on = ran.0 > look + look / Self::MARGIN;
        self.0 = Nanos(if got_on { look + look / Self::GROW } else { look - look / Self::LEARN + ran.0 / Self::LEARN });
        got_on
    }
}

impl Rsdl {
    /// Whether the vCPU that yields on this slot got on since it was given it.
    pub(super) fn got_on(&mut self, slot: Slot, current: VcpuId) -> bool {
        let s = &self.slots[slot.index()];
        let ran = s.charged.since(s.since);
        self.vcpu(current).look.got_on(ran)
    }

    /// A yield that says nothing, and is not forgiven.
    pub(super) fn says_nothing(&mut self, slot: Slot, current: VcpuId, got_on: bool, now: Time) -> Decision {
        if got_on {
            self.queue.recall();
        }
        self.mark_waiting(current, None);
        let join = if got_on { Join::Tail } else { Join::InVain };
        self.give_turn(slot, current, join, now)
    }

    /// Behind all others of its stair and the head's, so that the head runs, wherever it stands. Where the head only waits
    /// as well, whoever has waited longest within reach.
    pub(super) fn give_turn(&mut self, slot: Slot, current: VcpuId, join: fn(Stair) -> Join, now: Time) -> Decision {
        let head = self.queue.head().map_or(0, |(_, stair)| stair);
        self.enqueue(current, join(head));
        let at_most = self.vcpu(current).stair;
        match self.longest_waiting().or_else(|| self.pick(slot, at_most)) {
            Some(next) => self.install_fresh(slot, next, now),
            None => self.go_on(slot, current),
        }
    }

    /// Takes out of the line who has waited longest within reach, if the head waits.
    fn longest_waiting(&mut self) -> Option<VcpuId> {
        let (head, stair) = self.queue.head()?;
        if self.rt.len() > 0 || !self.vcpu(head).waits {
            return None;
        }
        let highest = stair.max(self.served) + WAITERS_REACH;
        let waiting = self.queue.oldest_of(Kind::Waiting, highest);
        let computing = self.queue.oldest_of(Kind::Computing, stair);
        let oldest = match waiting.into_iter().chain(computing).min_by_key(|&vcpu| self.queue.place(vcpu)) {
            Some(oldest) => oldest,
            // All have been asked.
            None => {
                self.queue.recall();
                self.queue.oldest_of(Kind::Waiting, highest)?
            }
        };
        self.take(oldest);
        Some(oldest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Nanos = Nanos::from_micros;

    #[test]
    fn who_runs_longer_than_it_looks_got_on() {
        let mut look = Look::unknown();
        (0..40).for_each(|_| assert!(!look.got_on(US(35))));
        assert!(look.got_on(US(42)));
        assert!(!look.got_on(US(36)));
    }

    #[test]
    fn spinning_that_has_become_slower_is_learnt_and_faster_at_once() {
        let mut look = Look::unknown();
        (0..40).for_each(|_| _ = look.got_on(US(35)));
        let mistaken = (0..10_000).take_while(|_| look.got_on(US(50))).count();
        assert!(mistaken < 2_000, "{mistaken}");
        let mistaken = (0..100).filter(|_| look.got_on(US(35))).count();
        assert_eq!(mistaken, 0);
        assert!(look.got_on(US(42)));
    }
}
