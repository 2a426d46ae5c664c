//! Chance that follows from a seed.

use crate::Nanos;

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
    fn a_seed_gives_one_sequence() {
        let of = |seed| {
            let mut draw = Draw::new(seed);
            [(); 4].map(|()| draw.below(100))
        };
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }
}
