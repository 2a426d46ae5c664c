//! A cap as a clock: how much of it has been drawn is one point in time.
//!
//! This is the generic cell rate algorithm (ITU-T I.371, there for cells of a network): instead of a balance that grows
//! with time, keep the time by which what was drawn is *paid*. Drawing a slice moves it by the time in which the cap
//! yields that slice, from now on if all was paid; a slice may be drawn if it is paid within half a period. Nothing has
//! to be counted while nothing is drawn, and debt is a time that lies further ahead.
//! With `n` members a slice is the `2n`-th part of the period's budget, and takes the `2n`-th part of the period to
//! pay. Each member has two turns in a period, and these lie evenly within it. A lone member has four, so that one that
//! comes a little late to draw can make up for it. A slice is at least the [shortest turn](Cap::SHORTEST_TURN): where a
//! budget is too small for so many, turns are fewer.
//!
//! Half a budget at most is drawn before it is paid. Each member has one slice at most: one that still has a rest of a
//! slice draws only what is missing. One that drew a larger slice while there were fewer members runs no more than a
//! slice of now, but a turn under way as another joins is run to its end. All slices together are half a budget, and
//! more where turns are fewer. So in any span the members run at most what the cap yields in it, half a budget, a slice
//! each, and what each last ran beyond its slice, which is paid back: where turns are not fewer, one period's budget on
//! top of the yield. A group that draws nothing for half a period loses what the cap yields from then on.

use crate::attributes::Cap;
use crate::time::{Nanos, Time};

/// What a group may draw.
#[derive(Debug)]
pub(crate) struct Budget {
    cap: Cap,
    /// When all that was drawn is paid.
    paid: Time,
}

impl Budget {
    /// Nothing has been drawn.
    pub(crate) fn new(cap: Cap, now: Time) -> Self {
        Self { cap, paid: now }
    }

    /// When the next slice can be drawn.
    pub(crate) fn ready(&self, members: u32) -> Time {
        self.paid + self.turn(members) - self.ahead()
    }

    /// Draws a slice, ready or not. A member that has kept a rest of its last slice draws what is missing of one.
    pub(crate) fn draw(&mut self, members: u32, kept: Nanos, now: Time) -> Nanos {
        let slice = self.slice(members);
        match kept {
            Nanos::ZERO => self.pay(self.turn(members), now),
            kept => self.overdraw(slice.saturating_sub(kept), now),
        }
        slice
    }

    /// What a member has at most when it comes to run.
    pub(crate) fn slice(&self, members: u32) -> Nanos {
        Nanos(self.cap.budget().0 / self.turns(members))
    }

    /// The time in which the cap yields a slice; rounded up, since a nanosecond too little in each would exceed the
    /// cap.
    pub(crate) fn turn(&self, members: u32) -> Nanos {
        Nanos(self.cap.period().0.div_ceil(self.turns(members)))
    }

    /// Turns in a period.
    fn turns(&self, members: u32) -> u64 {
        (2 * u64::from(members)).max(4).min(self.cap.budget().0 / Cap::SHORTEST_TURN.0).max(1)
    }

    /// CPU time used beyond what was drawn.
    pub(crate) fn overdraw(&mut self, ran: Nanos, now: Time) {
        let (ran, period) = (u128::from(ran.0), u128::from(self.cap.period().0));
        let span = (ran * period).div_ceil(u128::from(self.cap.budget().0));
        self.pay(Nanos(u64::try_from(span).unwrap_or(u64::MAX)), now);
    }

    fn pay(&mut self, span: Nanos, now: Time) {
        self.paid = self.paid.max(now) + span;
    }

    /// For how long at most slices are drawn before they are paid.
    fn ahead(&self) -> Nanos {
        Nanos(self.cap.period().0 / 2).max(self.turn(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn half(now: Time) -> Budget {
        Budget::new(Cap::new(Nanos(50 * MS), Nanos(100 * MS)).unwrap(), now)
    }

    #[test]
    fn slices_can_be_drawn_at_even_distances_once_half_a_period_is_drawn_ahead() {
        let mut now = Time(1000 * MS);
        let mut budget = half(now);
        for _ in 0..2 {
            assert!(budget.ready(2) <= now, "half a period is in hand");
            assert_eq!(budget.draw(2, Nanos::ZERO, now), Nanos(12 * MS + MS / 2));
        }
        for _ in 0..5 {
            assert_eq!(budget.ready(2), now + Nanos(25 * MS));
            now = budget.ready(2);
            let _ = budget.draw(2, Nanos::ZERO, now);
        }
    }

    #[test]
    fn who_kept_a_rest_draws_what_is_missing_of_a_slice_and_pays_for_that() {
        let now = Time(1000 * MS);
        let mut budget = half(now);
        let slice = budget.draw(2, Nanos::ZERO, now);
        let paid = budget.paid;
        assert_eq!(budget.draw(2, Nanos(slice.0 / 5 * 4), now), slice, "no more than a slice is in hand");
        assert_eq!(budget.paid, paid + Nanos(budget.turn(2).0 / 5));
    }

    #[test]
    fn what_was_overdrawn_is_paid_before_the_next_slice_however_much_it_was() {
        let now = Time(1000 * MS);
        let mut budget = half(now);
        let _ = budget.draw(1, Nanos::ZERO, now);
        budget.overdraw(Nanos(3000 * MS), now);
        assert_eq!(budget.ready(1), now + Nanos(6000 * MS));
    }

    proptest! {
        #[test]
        fn over_any_time_no_more_is_drawn_than_the_cap_yields_and_half_a_budget(
            per_mille in 10u64..4000,
            members in 1u32..40,
            gaps in prop::collection::vec(0u64..80 * MS, 1..200),
        ) {
            let cap = Cap::new(Nanos(100 * MS * per_mille / 1000), Nanos(100 * MS)).unwrap();
            let (start, mut now, mut drawn) = (Time(1000 * MS), Time(1000 * MS), 0);
            let mut budget = Budget::new(cap, start);
            for gap in gaps {
                while budget.ready(members) <= now {
                    drawn += budget.draw(members, Nanos::ZERO, now).0;
                    let yields = (now.since(start).0 + 50 * MS) * per_mille / 1000;
                    prop_assert!(drawn <= yields + 1, "{drawn} of {yields}");
                }
                now = now + Nanos(gap);
            }
        }
    }
}
