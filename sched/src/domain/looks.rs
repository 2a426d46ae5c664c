//! Looks: when a vCPU is kicked before its lease ends, only to see whether it spins.
//!
//! A guest that waits by spinning and never says so burns its lease while the one it waits for is queued. That it spins
//! can be seen at a kick ([`Vcpu::spins`](crate::Vcpu::spins)), but a kick costs as much as an exit. So:
//!
//! 1. The kick at the end of a lease is a look for nothing. A vCPU that was never seen spinning there is not looked at
//!    otherwise: who computes pays nothing.
//! 2. Once seen spinning, a vCPU is looked at when it has run for [`FIRST`], in each turn.
//! 3. Every such look that finds it doing something else doubles that time, and so does a yield or an idle of its own: a
//!    guest that says when it waits needs no looks. Beyond [`LAST`] there are none.
//!
//! The policy is not told of a look that found nothing. While nobody waits there are none.

use crate::{Nanos, Time};

/// From the beginning of a turn to the first look: a few times what a kick costs where it costs most (no config key: half
/// of it or twice as much changes little).
const FIRST: Nanos = Nanos::from_micros(100);
/// The latest look: beyond it the ends of leases are near (no config key: it only ends the doubling).
const LAST: Nanos = Nanos::from_micros(64 * FIRST.0 / 1_000);

/// When one vCPU is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Looks {
    /// From the beginning of a turn, or from the last look, to the next.
    after: Nanos,
    /// The next one.
    at: Time,
}

impl Default for Looks {
    fn default() -> Self {
        Self { after: LAST + LAST, at: Time::NEVER }
    }
}

impl Looks {
    /// The vCPU begins to run, or goes on, and others wait or do not. Gives the time of its next look.
    pub(super) fn plan(&mut self, now: Time, others_wait: bool) -> Time {
        self.at = if others_wait && self.after <= LAST { now + self.after } else { Time::NEVER };
        self.at
    }

    /// It was kicked, and seen to spin or not. Gives the time of its next look.
    pub(super) fn seen(&mut self, spins: bool, now: Time) -> Time {
        if spins {
            self.after = FIRST;
        } else if self.at <= now {
            self.put_off();
        }
        self.plan(now, self.at != Time::NEVER)
    }

    /// It says by itself when it waits.
    pub(super) fn put_off(&mut self) {
        if self.after <= LAST {
            self.after += self.after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_000_000_000);

    /// Seen spinning at the end of a lease.
    fn spinner() -> Looks {
        let mut looks = Looks::default();
        assert_eq!(looks.plan(NOW, true), Time::NEVER);
        looks.seen(true, NOW);
        looks
    }

    #[test]
    fn who_was_never_seen_spinning_is_not_looked_at() {
        let mut looks = Looks::default();
        for _ in 0..3 {
            assert_eq!(looks.plan(NOW, true), Time::NEVER);
            assert_eq!(looks.seen(false, NOW), Time::NEVER);
            looks.put_off();
        }
        assert_eq!(looks, Looks::default());
    }

    #[test]
    fn who_was_seen_spinning_is_looked_at_early_in_each_turn_while_others_wait() {
        let mut looks = spinner();
        assert_eq!(looks.plan(NOW, true), NOW + FIRST);
        assert_eq!(looks.seen(true, NOW + FIRST), NOW + FIRST + FIRST);
        assert_eq!(looks.plan(NOW, true), NOW + FIRST);
        assert_eq!(looks.plan(NOW, false), Time::NEVER);
        assert_eq!(looks.seen(true, NOW), Time::NEVER, "nobody waits");
    }

    #[test]
    fn looks_in_vain_come_ever_later_until_there_are_none_and_cost_little_together() {
        let mut looks = spinner();
        let (mut at, mut count) = (looks.plan(NOW, true), 0);
        while at != Time::NEVER {
            let next = looks.seen(false, at);
            assert!(next == Time::NEVER || next.since(at).0 >= at.since(NOW).0, "no sooner than all before took");
            (at, count) = (next, count + 1);
        }
        assert_eq!(count, 7);
        assert_eq!(looks.plan(NOW, true), Time::NEVER, "nor in the next turn");
        looks.seen(true, NOW);
        assert_eq!(looks.plan(NOW, true), NOW + FIRST, "but once it spins again");
    }

    #[test]
    fn a_kick_that_comes_sooner_than_the_look_says_nothing_of_who_does_not_spin() {
        let mut looks = spinner();
        looks.plan(NOW, true);
        let early = NOW + Nanos(1);
        assert_eq!(looks.seen(false, early), early + FIRST);
    }

    #[test]
    fn who_yields_by_itself_is_looked_at_ever_later() {
        let mut looks = spinner();
        looks.put_off();
        assert_eq!(looks.plan(NOW, true), NOW + FIRST + FIRST);
        (0..6).for_each(|_| looks.put_off());
        assert_eq!(looks.plan(NOW, true), Time::NEVER);
    }
}
