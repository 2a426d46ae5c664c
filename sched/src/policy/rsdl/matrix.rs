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

    /// Where a vCPU stands that has used so much of a stair's quota and uses so much CPU time more, and what it
    /// has used of the stair there. What it used beyond the quota is forgiven: the quota may have been longer then.
    pub(super) fn spend(self, stair: Stair, used: Nanos, time: Nanos) -> (Stair, Nanos) {
        let used = used.min(self.quota) + time;
        if used < self.quota {
            return (stair, used);
        }
        // Whole rotations lead to the same level, once the vCPU is on a level that it may use.
        let (stair, used) = (self.after(stair), used - self.quota);
        let (rotations, used) = (used.0 / self.per_rotation().0, used.0 % self.per_rotation().0);
        let steps = (0..used / self.quota.0).fold(stair, |stair, _| self.after(stair));
        (steps + rotations * LEVELS, Nanos(used % self.quota.0))
    }

    /// Where a vCPU stands that gets so much of its CPU time back, but goes back no further once it is at `lowest` or
    /// before; and what it has used of that stair.
    pub(super) fn regain(self, mut stair: Stair, mut used: Nanos, mut time: Nanos, lowest: Stair) -> (Stair, Nanos) {
        let lowest = lowest.max(self.at_or_after(0));
        while time > used && stair > lowest {
            time = time - used;
            (stair, used) = (self.before(stair), self.quota);
            let rotations = (time.0 / self.per_rotation().0).min(stair.saturating_sub(lowest) / LEVELS);
            stair -= rotations * LEVELS;
            time = time - Nanos(rotations * self.per_rotation().0);
        }
        let used = used - time;
        // A whole quota used is the next stair.
        if used >= self.quota { (self.after(stair), Nanos::ZERO) } else { (stair, used) }
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
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn time_is_spent_and_regained_as_stair_by_stair(
            (nice, stair, used) in (-20i8..=19, 0..200u64, 0..7_000_000u64),
            (time, lowest) in (0..4_000_000_000u64, 0..200u64),
        ) {
            let row = row(nice);
            let (used, time) = (Nanos(used), Nanos(time));
            let (mut far, mut left) = (stair, used.min(row.quota) + time);
            while left >= row.quota {
                (far, left) = (row.after(far), left - row.quota);
            }
            prop_assert_eq!(row.spend(stair, used, time), (far, left));
            let (stair, used) = row.spend(stair, Nanos::ZERO, used);
            let (mut near, mut less, mut left) = (stair, used, time);
            while left > less && near > lowest.max(row.at_or_after(0)) {
                left = left - less;
                (near, less) = (row.before(near), row.quota);
            }
            less = less - left;
            if less >= row.quota {
                (near, less) = (row.after(near), Nanos::ZERO);
            }
            prop_assert_eq!(row.regain(stair, used, time, lowest), (near, less));
        }
    }

    #[test]
    fn centuries_are_spent_and_regained_at_once() {
        let (stair, used) = row(0).spend(1, Nanos::ZERO, Nanos(u64::MAX));
        assert!(stair > 1 << 41 && used < row(0).quota);
        for lowest in [0, 1, 41] {
            assert_eq!(row(0).regain(stair, used, Nanos(u64::MAX), lowest), (lowest.max(1), Nanos::ZERO));
        }
    }
}
