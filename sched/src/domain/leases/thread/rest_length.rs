//! How long a vCPU rests between two turns, learnt from the last rests.
//!
//! A timer left set over a rest would, if the rest lasts, interrupt another vCPU or wake the thread for nothing. To
//! unset it and to set it again costs two system calls for each rest. A vCPU that rests for a short time only is back
//! long before its timer fires, and its next lease mostly ends later than that: so the timer is left.

use crate::time::{Nanos, Time};

/// The mean of the last rests.
#[derive(Debug)]
pub(super) struct RestLength(Nanos);

impl Default for RestLength {
    /// Nothing is known: no timer is left.
    fn default() -> Self {
        Self(Nanos::from_millis(1_000))
    }
}

impl RestLength {
    /// Half of a new mean is known after about five rests.
    const LEARN: u64 = 8;
    /// Of rests that end at random, one in 50 is four times the mean.
    const SURE: u64 = 4;

    /// The vCPU rested for so long.
    pub(super) fn learn(&mut self, span: Nanos) {
        self.0 = Nanos(self.0.0 - self.0.0 / Self::LEARN + span.0 / Self::LEARN);
    }

    /// Whether a vCPU that begins to rest now will be back before then, almost surely.
    pub(super) fn is_over_by(&self, then: Time, now: Time) -> bool {
        then.since(now) > Nanos(self.0.0 * Self::SURE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_left_over_short_rests_and_over_none_at_first() {
        let (now, then) = (Time(1_000_000), Time(4_000_000));
        let mut rests = RestLength::default();
        assert!(!rests.is_over_by(then, now));
        (0..100).for_each(|_| rests.learn(Nanos::from_micros(100)));
        assert!(rests.is_over_by(then, now) && !rests.is_over_by(Time(1_300_000), now));
        (0..20).for_each(|_| rests.learn(Nanos::from_millis(2)));
        assert!(!rests.is_over_by(then, now));
    }
}
