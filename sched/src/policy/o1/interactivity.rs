//! How the O(1) scheduler guesses which vCPUs are interactive: the sleep average, and what it buys.
//!
//! Numbers and formulas are those of Linux 2.6.11 to 2.6.15 (kernel/sched.c), in nanoseconds where Linux counts ticks.
//! All here is arithmetic. The policy knows which vCPU sleeps, runs and queues.

use crate::ids::Nice;
use crate::time::Nanos;

/// Levels that nice values and bonuses map to; the lowest number runs first.
pub(super) const LEVELS: u8 = 40;

/// Timeslice of nice 0. Linux: DEF_TIMESLICE.
const DEFAULT_SLICE: Nanos = Nanos::from_millis(100);
/// Timeslice of nice 19. Linux: MIN_TIMESLICE.
const LEAST_SLICE: Nanos = Nanos::from_millis(5);
/// How much longer slices of negative nice values are.
const FAVOURED: u64 = 4;
/// The longest slice, that of nice -20.
pub(super) const LONGEST_SLICE: Nanos = Nanos(DEFAULT_SLICE.0 * FAVOURED * 2);
/// Turns of interactive vCPUs on one level, at the best bonus and for each slot. Linux: GRANULARITY.
const TURN: Nanos = Nanos::from_millis(10);
/// Steps between the worst and the best dynamic level: 25 % of all levels. Linux: MAX_BONUS.
const BONUSES: u64 = LEVELS as u64 / 4;
/// How far above its static level a nice 0 must be to count as interactive. Linux: INTERACTIVE_DELTA.
const INTERACTIVE_DELTA: i64 = 2;
/// The most sleep that is remembered. Linux: MAX_SLEEP_AVG.
pub(super) const MOST_SLEEP: Nanos = Nanos(DEFAULT_SLICE.0 * BONUSES);

/// The timeslice of a nice value: CPU time in each round.
pub fn slice(nice: Nice) -> Nanos {
    let base = if nice.get() < 0 { DEFAULT_SLICE.0 * FAVOURED } else { DEFAULT_SLICE.0 };
    Nanos(base * (20 - i64::from(nice.get())) as u64 / 20).max(LEAST_SLICE)
}

/// The level of a nice value without bonus or penalty.
pub(super) fn static_level(nice: Nice) -> u8 {
    (nice.get() + 20) as u8
}

/// How many levels above its static one a vCPU of this nice value must stand to count as interactive: -3 for nice -20,
/// 2 for nice 0, 6 for nice 19, which never gets there.
fn delta(nice: Nice) -> i64 {
    i64::from(nice.get()) * BONUSES as i64 / 40 + INTERACTIVE_DELTA
}

/// Sleep remembered, less what was run since: 0 to [`MOST_SLEEP`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct SleepAverage(Nanos);

impl SleepAverage {
    /// 0 (computes) to 10 (sleeps).
    fn bonus(self) -> u64 {
        self.0.0 * BONUSES / MOST_SLEEP.0
    }

    /// The dynamic level: the static one, five levels worse to five better.
    pub(super) fn level(self, nice: Nice) -> u8 {
        let level = i64::from(static_level(nice)) + BONUSES as i64 / 2 - self.bonus() as i64;
        level.clamp(0, i64::from(LEVELS) - 1) as u8
    }

    /// Whether a vCPU at this dynamic level goes back among the active when its slice is over.
    pub(super) fn is_interactive(level: u8, nice: Nice) -> bool {
        i64::from(level) <= i64::from(static_level(nice)) - delta(nice)
    }

    /// It slept. Short sleeps count the more, the lower the average is; one long sleep makes interactive, but not more.
    pub(super) fn slept(&mut self, span: Nanos, nice: Nice) {
        let span = span.min(MOST_SLEEP);
        let enough = (BONUSES as i64 / 2 + delta(nice) + 1).max(0) as u64;
        if span.0 > MOST_SLEEP.0 * enough / BONUSES {
            self.0 = MOST_SLEEP.saturating_sub(DEFAULT_SLICE);
        } else {
            let earned = Nanos(span.0 * (BONUSES - self.bonus()).max(1));
            self.0 = (self.0 + earned).min(MOST_SLEEP);
        }
    }

    /// It ran, which costs the less, the higher the average is.
    pub(super) fn ran(&mut self, span: Nanos) {
        let cost = Nanos(span.min(MOST_SLEEP).0 / self.bonus().max(1));
        self.0 = self.0.saturating_sub(cost);
    }

    /// After how long an interactive vCPU lets others of its level have a turn.
    pub(super) fn turn(self, slots: usize) -> Nanos {
        let doublings = (BONUSES - self.bonus()).max(1) - 1;
        Nanos((TURN.0 << doublings) * slots as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nice(nice: i8) -> Nice {
        Nice::new(nice).unwrap()
    }

    fn slept_for(ms: u64) -> SleepAverage {
        SleepAverage(Nanos::from_millis(ms))
    }

    #[test]
    fn slices_are_those_of_linux() {
        for (value, ms) in [(-20, 800), (-1, 420), (0, 100), (10, 50), (19, 5)] {
            assert_eq!(slice(nice(value)), Nanos::from_millis(ms), "nice {value}");
        }
    }

    #[test]
    fn the_bonus_moves_a_level_by_five_up_or_down_and_stays_within_the_levels() {
        assert_eq!(slept_for(0).level(nice(0)), 25);
        assert_eq!(slept_for(500).level(nice(0)), 20);
        assert_eq!(slept_for(1000).level(nice(0)), 15);
        assert_eq!(slept_for(1000).level(nice(-20)), 0);
        assert_eq!(slept_for(0).level(nice(19)), 39);
    }

    #[test]
    fn the_bonus_it_takes_to_be_interactive_grows_with_nice() {
        // Of the eleven bonuses, so many make interactive; Linux, too, rounds towards zero.
        for (value, interactive) in [(-20, 9), (-10, 6), (0, 4), (10, 2), (19, 0)] {
            let counted = (0..=10).filter(|tenth| {
                let unclamped = 20 + i64::from(value) + 5 - tenth;
                unclamped <= i64::from(static_level(nice(value))) - delta(nice(value))
            });
            assert_eq!(counted.count(), interactive, "nice {value}");
        }
    }

    #[test]
    fn one_long_sleep_makes_interactive_and_short_ones_add_up() {
        let mut long = slept_for(0);
        long.slept(Nanos::from_millis(5000), nice(0));
        assert!(long == slept_for(900) && SleepAverage::is_interactive(long.level(nice(0)), nice(0)));
        let mut short = slept_for(0);
        (0..20).for_each(|_| short.slept(Nanos::from_millis(20), nice(0)));
        assert!(short > slept_for(800));
    }

    #[test]
    fn running_costs_the_full_time_without_bonus_and_a_tenth_with_the_best() {
        let mut low = slept_for(50);
        low.ran(Nanos::from_millis(30));
        assert_eq!(low, slept_for(20));
        let mut high = slept_for(1000);
        high.ran(Nanos::from_millis(30));
        assert_eq!(high, slept_for(997));
    }
}
