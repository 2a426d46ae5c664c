//! Chance that follows from a seed.

use crate::time::Nanos;

/// How long exits take: the share of them (unit: thousandths) that take at most so much of the median (the same). Of
/// three times 30,000 exits one by one on the machine of the built-in costs; the slowest hundredth met interrupts,
/// ticks mostly.
const EXIT: [(u64, u64); 9] =
    [(0, 987), (100, 992), (250, 995), (500, 1000), (750, 1007), (900, 1016), (950, 1027), (990, 1476), (1000, 4900)];

/// A generator of numbers (splitmix64, Steele et al. 2014): small, fast, and good enough for spreading work.
#[derive(Debug, Clone)]
pub struct Draw(u64);

impl Draw {
    /// The sequence of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, of 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, 0 if that is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// Puts items into an order of chance (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// The time of an exit, or of a part of one, whose median this is.
    pub(super) fn exit(&mut self, median: Nanos) -> Nanos {
        let at = self.below(1000);
        let above = EXIT.iter().position(|&(share, _)| at < share).unwrap_or(EXIT.len() - 1).max(1);
        let ((from, least), (to, most)) = (EXIT[above - 1], EXIT[above]);
        let thousandths = least + (most - least) * (at.clamp(from, to) - from) / (to - from);
        Nanos((u128::from(median.0) * u128::from(thousandths) / 1000) as u64)
    }

    /// A time that differs from this one by at most so many thousandths of it.
    pub(super) fn about(&mut self, time: Nanos, thousandths: u64) -> Nanos {
        if thousandths == 0 || time == Nanos::ZERO {
            return time;
        }
        let reach = (u128::from(time.0) * u128::from(thousandths) / 1000) as u64;
        Nanos(time.0 - reach + self.below(2 * reach + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_stays_within_its_reach_and_meets_both_sides() {
        let mut draw = Draw::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| draw.about(Nanos(1000), 50).0).collect();
        assert!(drawn.iter().all(|ns| (950..=1050).contains(ns)));
        assert!(drawn.iter().any(|&ns| ns < 970) && drawn.iter().any(|&ns| ns > 1030));
        assert_eq!(draw.about(Nanos(1000), 0), Nanos(1000));
    }

    #[test]
    fn exits_have_their_median_and_a_tail() {
        let mut draw = Draw::new(1);
        let mut drawn: Vec<u64> = (0..10_000).map(|_| draw.exit(Nanos(25_000)).0).collect();
        drawn.sort_unstable();
        assert!((24_900..=25_100).contains(&drawn[5_000]), "{}", drawn[5_000]);
        assert!((24_600..24_900).contains(&drawn[500]) && (35_000..40_000).contains(&drawn[9_900]));
        assert!(drawn[0] >= 24_600 && drawn[9_999] <= 122_500);
    }

    #[test]
    fn a_seed_gives_one_sequence() {
        let of = |seed| {
            let mut draw = Draw::new(seed);
            [(); 4].map(|()| draw.below(100))
        };
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }
}
