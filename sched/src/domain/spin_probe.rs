//! When a vCPU is kicked before its lease ends, only to see whether it spins.
//!
//! A guest that waits by spinning and never says so burns its lease while the one it waits for is queued. That it spins
//! can be seen at a kick ([`Vcpu::spins`](crate::Vcpu::spins)), but a kick costs as much as an exit. So:
//!
//! 1. The kick at the end of a lease is a look for nothing. A vCPU that was never seen spinning there is not looked at
//!    otherwise: a vCPU that computes pays nothing.
//! 2. Once seen spinning, a vCPU is looked at when it has run for [`FIRST`], in each turn.
//! 3. Every such look that finds it doing something else doubles that time. Beyond [`LAST`] there are none.
//! 4. A vCPU that has yielded or idled since the last look is not judged: it says by itself when it waits, and what it
//!    does just now is the spinning before that. Nor is one that has hardly run. Nor, for the next [`TRUSTED`] kicks,
//!    is one that has named the vCPU that it waits for: it may know that this one runs, and spin for that reason.
//!
//! The policy is not told of a look that found nothing. While no vCPU waits there are no looks.

use crate::time::{Nanos, Time};
use crate::wait::{Wait, Yield};

/// From the beginning of a turn to the first look: a few times what a kick costs where it costs most (no config key: it
/// follows from that cost, whatever the guest does).
const FIRST: Nanos = Nanos::from_micros(100);
/// The latest look: beyond it the ends of leases are near (no config key: it only ends the doubling).
const LAST: Nanos = Nanos::from_micros(64 * FIRST.0 / 1_000);
/// Kicks after a directed yield during which spin detection is suppressed: a pair that makes progress side by side need
/// not yield for some leases (no config key: it only has to end).
const TRUSTED: u8 = 32;

/// When one vCPU is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SpinProbe {
    /// The turn began, or the last look was.
    since: Time,
    /// From then to the next look.
    after: Nanos,
    /// The next one.
    at: Time,
    /// Kicks to come at which it is not judged, for it has said that it waits.
    trusted: u8,
}

impl Default for SpinProbe {
    fn default() -> Self {
        Self { since: Time(0), after: LAST + LAST, at: Time::NEVER, trusted: 0 }
    }
}

impl SpinProbe {
    /// The time of the next look.
    pub(super) fn next(self) -> Time {
        self.at
    }

    /// The vCPU begins to run, or goes on, and others wait or do not.
    pub(super) fn plan(&mut self, now: Time, others_wait: bool) {
        self.since = now;
        self.at = if others_wait && self.after <= LAST { now + self.after } else { Time::NEVER };
    }

    /// It idles by itself.
    pub(super) fn idles(&mut self) {
        self.trusted = self.trusted.max(1);
    }

    /// It yields by itself.
    pub(super) fn yields(&mut self, wait: Wait) {
        self.trusted = match wait {
            Wait::Lock(_) | Wait::Message(_) => TRUSTED,
            Wait::Unknown | Wait::Spin => self.trusted.max(1),
        };
    }

    /// It was kicked. The yield for which its spinning counts, if it is judged and spins.
    pub(super) fn kicked(&mut self, now: Time, spins: impl FnOnce() -> Option<Yield>) -> Option<Yield> {
        if now.since(self.since) < FIRST {
            return None;
        }
        let judged = self.trusted == 0;
        self.trusted = self.trusted.saturating_sub(1);
        let spins = if judged { spins() } else { None };
        if spins.is_some() {
            self.after = FIRST;
        } else if self.at <= now {
            self.after += self.after;
        }
        self.plan(now, self.at != Time::NEVER);
        spins
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_000_000_000);
    /// The end of a lease.
    const LATER: Time = Time(NOW.0 + 6_000_000);

    fn spins() -> Option<Yield> {
        Some(Yield { wait: Wait::Spin, again: false })
    }

    fn computes() -> Option<Yield> {
        None
    }

    /// The next look, if it goes on now and others wait.
    fn planned(looks: &mut SpinProbe) -> Time {
        looks.plan(NOW, true);
        looks.next()
    }

    /// Seen spinning at the end of a lease.
    fn spinner() -> SpinProbe {
        let mut looks = SpinProbe::default();
        assert_eq!(planned(&mut looks), Time::NEVER);
        assert_eq!(looks.kicked(LATER, spins), spins());
        looks
    }

    #[test]
    fn who_was_never_seen_spinning_is_not_looked_at() {
        let mut looks = SpinProbe::default();
        for _ in 0..3 {
            assert_eq!(planned(&mut looks), Time::NEVER);
            assert_eq!(looks.kicked(LATER, computes), None);
            assert_eq!(looks.next(), Time::NEVER);
        }
    }

    #[test]
    fn who_was_seen_spinning_is_looked_at_early_in_each_turn_while_others_wait() {
        let mut looks = spinner();
        assert_eq!(planned(&mut looks), NOW + FIRST);
        looks.kicked(NOW + FIRST, spins);
        assert_eq!(looks.next(), NOW + FIRST + FIRST);
        assert_eq!(planned(&mut looks), NOW + FIRST);
        looks.plan(NOW, false);
        assert_eq!(looks.next(), Time::NEVER);
        looks.kicked(LATER, spins);
        assert_eq!(looks.next(), Time::NEVER, "nobody waits");
    }

    #[test]
    fn looks_in_vain_come_ever_later_until_there_are_none_and_cost_little_together() {
        let mut looks = spinner();
        let (mut at, mut count) = (planned(&mut looks), 0);
        while at != Time::NEVER {
            assert_eq!(looks.kicked(at, computes), None);
            let next = looks.next();
            assert!(next == Time::NEVER || next.since(at).0 >= at.since(NOW).0, "no sooner than all before took");
            (at, count) = (next, count + 1);
        }
        assert_eq!(count, 7);
        assert_eq!(planned(&mut looks), Time::NEVER, "nor in the next turn");
        looks.kicked(LATER, spins);
        assert_eq!(planned(&mut looks), NOW + FIRST, "but once it spins again");
    }

    #[test]
    fn a_kick_that_comes_before_any_look_would_is_none() {
        let mut looks = spinner();
        looks.idles();
        let before = (planned(&mut looks), looks);
        assert_eq!(looks.kicked(NOW + FIRST - Nanos(1), || unreachable!("it has hardly run")), None);
        assert_eq!((looks.next(), looks), before);
    }

    #[test]
    fn who_named_whom_it_waits_for_is_not_judged_for_some_kicks_and_then_again() {
        let mut looks = spinner();
        looks.yields(Wait::Message(crate::ids::VcpuId(1)));
        let kick = |n: u8| LATER + Nanos(FIRST.0 * (1 + u64::from(n)));
        for n in 0..TRUSTED {
            assert_eq!(looks.kicked(kick(n), || unreachable!("it is not looked at")), None);
        }
        assert_eq!(looks.kicked(kick(TRUSTED), spins), spins());
    }

    #[test]
    fn a_yield_without_words_does_not_end_the_trust_in_one_with_words() {
        let mut looks = spinner();
        looks.yields(Wait::Lock(crate::ids::VcpuId(1)));
        looks.yields(Wait::Unknown);
        looks.kicked(LATER + FIRST, spins);
        assert_eq!(looks.trusted, TRUSTED - 1);
    }

    #[test]
    fn who_says_that_it_waits_is_not_judged_at_the_next_kick() {
        let mut looks = SpinProbe::default();
        looks.idles();
        assert_eq!(planned(&mut looks), Time::NEVER);
        assert_eq!(looks.kicked(LATER, || unreachable!("it is not looked at")), None);
        assert_eq!(planned(&mut looks), Time::NEVER);
        assert_eq!(looks.kicked(LATER, spins), spins(), "it has said nothing since");
    }
}
