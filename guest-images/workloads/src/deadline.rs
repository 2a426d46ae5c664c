//! When a periodic job is due, and which of its deadlines it missed, by interbench's rule. Pure.
//!
//! A job is due at the beginning of its period, and its deadline is the end of the period. A job that misses its
//! deadline skips whole periods: the next job is the first that is not due yet, and every period with a deadline that
//! passed in between is counted. So a late job never makes the next one late as well, and every missed deadline is
//! counted. Scrolling has a pattern of `burst` periods with jobs and `rest` periods without: in a rest no job is due,
//! and no deadline can be missed.

use stile_rt::clock::Ticks;

/// Periods of a job, the current one included.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    period: Ticks,
    burst: u64,
    rest: u64,
    first: Ticks,
    /// The period of the next job, counted from `first`.
    current: u64,
}

impl Deadlines {
    /// Jobs in every period, the first one due now or later at `first`.
    pub fn new(first: Ticks, period: Ticks) -> Self {
        Self { period: Ticks(period.0.max(1)), burst: 1, rest: 0, first, current: 0 }
    }

    /// Jobs in `burst` periods, then `rest` periods without jobs, in turn.
    pub fn in_bursts(self, burst: u64, rest: u64) -> Self {
        Self { burst: burst.max(1), rest, ..self }
    }

    /// When the next job is due.
    pub fn due(&self) -> Ticks {
        Ticks(self.first.0 + self.current * self.period.0)
    }

    /// The job that was due is done. Goes on to the next job, and returns how many deadlines passed.
    pub fn done(&mut self, now: Ticks) -> u64 {
        let late = now.since(self.due()).0;
        // A job that is done exactly at its deadline is in time.
        let passed = late.saturating_sub(1) / self.period.0;
        let missed = self.jobs_before(self.current + passed) - self.jobs_before(self.current);
        self.current += passed + 1;
        let place = self.current % (self.burst + self.rest);
        if place >= self.burst {
            self.current += self.burst + self.rest - place;
        }
        missed
    }

    /// Jobs due in the periods before this one.
    fn jobs_before(&self, period: u64) -> u64 {
        let pattern = self.burst + self.rest;
        period / pattern * self.burst + (period % pattern).min(self.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_hundred() -> Deadlines {
        Deadlines::new(Ticks(1000), Ticks(100))
    }

    #[test]
    fn a_job_done_by_its_deadline_misses_nothing_and_the_next_one_is_due_a_period_later() {
        let mut deadlines = every_hundred();
        for (due, done) in [(1000, 1001), (1100, 1150), (1200, 1300), (1300, 1300)] {
            assert_eq!(deadlines.due(), Ticks(due));
            assert_eq!(deadlines.done(Ticks(done)), 0, "done at {done}");
        }
    }

    #[test]
    fn a_late_job_skips_whole_periods_and_every_deadline_that_went_by_counts() {
        for (done, missed, next) in [(1101, 1, 1200), (1200, 1, 1200), (1201, 2, 1300), (1950, 9, 2000)] {
            let mut deadlines = every_hundred();
            assert_eq!(deadlines.done(Ticks(done)), missed, "done at {done}");
            assert_eq!(deadlines.due(), Ticks(next), "done at {done}");
        }
    }

    #[test]
    fn a_job_done_before_it_is_due_misses_nothing() {
        let mut deadlines = every_hundred();
        assert_eq!(deadlines.done(Ticks(5)), 0);
        assert_eq!(deadlines.due(), Ticks(1100));
    }

    #[test]
    fn nothing_is_due_or_missed_in_a_rest() {
        let mut deadlines = every_hundred().in_bursts(2, 3);
        let mut due = [0; 4];
        for slot in &mut due {
            *slot = deadlines.due().0;
            assert_eq!(deadlines.done(deadlines.due()), 0);
        }
        assert_eq!(due, [1000, 1100, 1500, 1600]);
        let mut late = every_hundred().in_bursts(2, 3);
        // Both deadlines of the first burst and one of the second have passed. The job ends in the second burst's other
        // period.
        assert_eq!(late.done(Ticks(1650)), 3);
        assert_eq!(late.due(), Ticks(2000));
    }

    #[test]
    fn jobs_done_and_missed_make_up_the_periods_that_went_by() {
        let mut deadlines = every_hundred();
        let (mut done, mut missed) = (0, 0);
        for late in [10, 250, 90, 1000, 101, 0] {
            missed += deadlines.done(deadlines.due() + Ticks(late));
            done += 1;
        }
        assert_eq!(deadlines.due().0, 1000 + 100 * (done + missed));
    }
}
