//! Nice values as stairs and quotas.
//!
//! A rotation has 40 levels. A vCPU may run one quota at each level its row of the matrix allows, `20 - nice` of
//! them, the last level always among them. Which they are is what the two generations differ in ([`Variant`]); the
//! algorithms and constants are Con Kolivas'.
//!
//! Rotations follow each other without end, so a position is one number, the *stair*: `rotation * LEVELS + level`.
//! The array that SD calls expired is the next rotation's stairs, and swapping the arrays is walking on. SD queued an
//! expired task at its first level without marking the level used, and so granted it twice a rotation; here a stair is
//! left once its quota is used, whichever it is, and every row has exactly its `20 - nice` grants.

use crate::ids::Nice;
use crate::time::Nanos;

/// Levels of a rotation.
pub const LEVELS: u64 = 40;

/// A position on the staircase: rotation and level in one.
pub type Stair = u64;

/// The two generations of the staircase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Variant {
    /// Staircase Deadline, as in 2.6.22-ck1 (kernel/sched.c, Documentation/sched-design.txt): a row's levels are spread
    /// evenly, so that a vCPU with fewer levels waits for each no longer than it must.
    #[default]
    Dithered,
    /// RSDL as first posted in March 2007: a row's levels are its own and all below it. Each level has a budget, which
    /// pushes all vCPUs down when it is used up.
    LevelQuota,
}

/// What a nice value amounts to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Bit per allowed level.
    allowed: u64,
    /// The most stairs between two that it allows.
    pub(crate) longest_step: Stair,
    /// CPU time at one level (units: ns).
    pub quota: Nanos,
}

impl Row {
    /// The row of a nice value, for this interval.
    pub fn new(nice: Nice, rr_interval: Nanos, variant: Variant) -> Self {
        match variant {
            Variant::Dithered => Self::of(dithered(level(nice)), quota(nice, rr_interval)),
            Variant::LevelQuota => Self::consecutive(nice, rr_interval),
        }
    }

    /// The row of a nice value whose levels are its own and all below.
    pub(crate) fn consecutive(nice: Nice, rr_interval: Nanos) -> Self {
        Self::of((1 << LEVELS) - (1 << level(nice)), quota(nice, rr_interval))
    }

    fn of(allowed: u64, quota: Nanos) -> Self {
        let row = Self { allowed, longest_step: LEVELS, quota };
        let longest_step = (0..LEVELS).map(|level| row.after(level) - level).max().unwrap_or(LEVELS);
        Self { longest_step, ..row }
    }

    /// The most of its stairs that any so many stairs in a row can hold.
    pub(crate) fn most_among(self, stairs: u64) -> u64 {
        let allowed = |stair| self.at_or_after(stair) == stair;
        let among = |first| (first..first + stairs).filter(|&stair| allowed(stair)).count() as u64;
        (0..LEVELS).map(among).max().unwrap_or(0)
    }

    /// The first allowed stair at or after this one.
    pub(crate) fn at_or_after(self, stair: Stair) -> Stair {
        let (rotation, level) = (stair / LEVELS, stair % LEVELS);
        let rest = self.allowed >> level;
        if rest != 0 {
            return stair + u64::from(rest.trailing_zeros());
        }
        // Every row allows a level: the last one.
        (rotation + 1) * LEVELS + u64::from(self.allowed.trailing_zeros())
    }

    /// The next allowed stair.
    pub fn after(self, stair: Stair) -> Stair {
        self.at_or_after(stair + 1)
    }

    /// The allowed stair before this one; the first of all has none before it and stays.
    pub fn before(self, stair: Stair) -> Stair {
        let (rotation, level) = (stair / LEVELS, stair % LEVELS);
        let above = self.allowed & ((1 << level) - 1);
        match (above, rotation) {
            (0, 0) => stair,
            (0, _) => (rotation - 1) * LEVELS + u64::from(self.allowed.ilog2()),
            _ => rotation * LEVELS + u64::from(above.ilog2()),
        }
    }

    /// Number of allowed levels.
    pub(crate) fn levels(self) -> u32 {
        self.allowed.count_ones()
    }

    /// CPU time in a rotation, and so the weight.
    pub fn per_rotation(self) -> Nanos {
        Nanos(self.quota.0 * u64::from(self.levels()))
    }
}

/// The level of a nice value, 0 to 39.
fn level(nice: Nice) -> u64 {
    (i64::from(nice.get()) + 20) as u64
}

/// Levels spread evenly: every `1600 / (40 - level)`-th of 1600, counted from the last.
fn dithered(level: u64) -> u64 {
    let step = 1600 / (LEVELS - level) as usize;
    (0..=1560).step_by(step).fold(0, |allowed, k| allowed | 1 << (39 - k / 40))
}

fn quota(nice: Nice, rr_interval: Nanos) -> Nanos {
    let n = i64::from(nice.get());
    if n < -6 {
        Nanos(rr_interval.0 * (n * n) as u64 / 40)
    } else if n <= 0 {
        rr_interval
    } else {
        // SD's minimum of 1 ms was one tick; here it only keeps tiny intervals from halving away.
        Nanos((rr_interval.0 / 2).max(rr_interval.0.min(1_000_000)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(nice: i8) -> Row {
        Row::new(Nice::new(nice).unwrap(), Nanos::from_millis(6), Variant::Dithered)
    }

    #[test]
    fn the_first_generation_has_as_many_levels_as_the_last_in_one_piece() {
        for nice in -20..=19 {
            let first = Row::new(Nice::new(nice).unwrap(), Nanos::from_millis(6), Variant::LevelQuota);
            assert_eq!(first.per_rotation(), row(nice).per_rotation(), "nice {nice}");
            assert_eq!(first.at_or_after(0), (i64::from(nice) + 20) as u64, "nice {nice}");
            assert_eq!(first.at_or_after(39), 39, "nice {nice}");
        }
    }

    #[test]
    fn of_any_stairs_in_a_row_a_vcpu_has_its_part_and_one_more_at_most() {
        assert_eq!((row(0).longest_step, row(19).longest_step, row(-20).longest_step), (2, 40, 1));
        assert_eq!([1, 2, 3, 18].map(|stairs| row(0).most_among(stairs)), [1, 1, 2, 9]);
        assert_eq!([1, 40, 41].map(|stairs| row(19).most_among(stairs)), [1, 1, 2]);
    }

    #[test]
    fn before_undoes_after() {
        for nice in -20..=19 {
            for start in 0..2 * LEVELS {
                let at = row(nice).at_or_after(start);
                assert_eq!(row(nice).before(row(nice).after(at)), at, "nice {nice}, stair {at}");
            }
        }
    }

    #[test]
    fn rows_have_the_levels_and_times_of_the_final_staircase() {
        // nice, levels, first level, quota in ms, ms in a rotation; from the code's formulas.
        for (nice, levels, first, quota, total) in [
            (-20, 40, 0, 60, 2400),
            (-10, 30, 1, 15, 450),
            (-6, 26, 1, 6, 156),
            (0, 20, 1, 6, 120),
            (1, 19, 2, 3, 57),
            (5, 15, 2, 3, 45),
            (10, 10, 3, 3, 30),
            (19, 1, 39, 3, 3),
        ] {
            let row = row(nice);
            assert_eq!(row.levels(), levels, "nice {nice}");
            assert_eq!(row.at_or_after(0), first, "nice {nice}");
            assert_eq!(row.quota, Nanos::from_millis(quota), "nice {nice}");
            assert_eq!(row.per_rotation(), Nanos::from_millis(total), "nice {nice}");
        }
    }

    #[test]
    fn a_walk_visits_each_allowed_level_once_a_rotation() {
        for nice in -20..=19 {
            let row = row(nice);
            let mut stair = row.at_or_after(0);
            let mut visits = 0;
            while stair < 7 * LEVELS {
                visits += 1;
                stair = row.after(stair);
            }
            assert_eq!(visits, 7 * row.levels(), "nice {nice}");
        }
    }
}
