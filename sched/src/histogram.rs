//! A histogram of spans of time, small enough for every vCPU to have one, and cheap enough to fill on a scheduler's
//! path.
//!
//! Log-linear, as HDR histograms are: eight buckets for each power of two, so a quantile is at most an eighth too long.
//! A vCPU's takes less than a kilobyte, where a general histogram of that precision takes tens: a domain may have
//! 100,000.

use crate::time::Nanos;

/// Shorter spans count as this long (unit: ns): below it lies the cost of looking.
const LEAST: u64 = 256;
const SUB_BITS: u32 = 3;
const SUB: usize = 1 << SUB_BITS;
/// Powers of two from 256 ns to 2^35 ns, some 34 s; longer spans count in the last bucket.
const OCTAVES: usize = 27;
const BUCKETS: usize = OCTAVES * SUB;

/// How many spans of which length there were.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u32; BUCKETS],
    count: u64,
    sum: Nanos,
    max: Nanos,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], count: 0, sum: Nanos::ZERO, max: Nanos::ZERO }
    }
}

impl Histogram {
    /// Counts one span.
    pub fn record(&mut self, span: Nanos) {
        let bucket = &mut self.buckets[bucket_of(span)];
        *bucket = bucket.saturating_add(1);
        self.count += 1;
        self.sum += span;
        self.max = self.max.max(span);
    }

    /// Counts everything another one has counted.
    pub fn merge(&mut self, other: &Self) {
        self.buckets.iter_mut().zip(&other.buckets).for_each(|(mine, theirs)| *mine = mine.saturating_add(*theirs));
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Those counted since an earlier reading. The longest of them is known exactly only if it is the longest of all;
    /// else it is told an eighth too long at most.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        since.buckets.iter_mut().zip(&earlier.buckets).for_each(|(mine, theirs)| *mine = mine.saturating_sub(*theirs));
        since.count = self.count.saturating_sub(earlier.count);
        since.sum = self.sum - earlier.sum;
        let longest = since.buckets.iter().rposition(|count| *count > 0);
        since.max = longest.map_or(Nanos::ZERO, |bucket| top_of(bucket).min(self.max));
        if longest == Some(BUCKETS - 1) || self.max > earlier.max {
            since.max = self.max;
        }
        since
    }

    /// Number of spans.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all spans, exactly.
    pub fn sum(&self) -> Nanos {
        self.sum
    }

    /// Number of spans that are shorter than `2^exponent` ns, exactly, for exponents of 9 to 34. For others it is the
    /// number for the nearest of these.
    pub fn shorter_than(&self, exponent: u32) -> u64 {
        let octave = exponent.saturating_sub(LEAST.ilog2()).clamp(1, OCTAVES as u32 - 1) as usize;
        self.buckets[..octave * SUB].iter().map(|count| u64::from(*count)).sum()
    }

    /// The longest span, exactly.
    pub fn max(&self) -> Nanos {
        self.max
    }

    /// A span that the part `quantile` (0 to 1) of all does not exceed, at most an eighth too long; zero if there are
    /// none.
    pub fn quantile(&self, quantile: f64) -> Nanos {
        let rank = ((quantile * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return top_of(bucket).min(self.max);
            }
        }
        self.max
    }
}

fn bucket_of(span: Nanos) -> usize {
    let ns = span.0.max(LEAST);
    let exponent = ns.ilog2();
    let sub = (ns >> (exponent - SUB_BITS)) as usize - SUB;
    ((exponent - LEAST.ilog2()) as usize * SUB + sub).min(BUCKETS - 1)
}

/// The longest span of a bucket.
fn top_of(bucket: usize) -> Nanos {
    let exponent = (bucket / SUB) as u32 + LEAST.ilog2() - SUB_BITS;
    Nanos(((SUB + bucket % SUB + 1) as u64) << exponent) - Nanos(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn without_spans_everything_is_zero() {
        let none = Histogram::default();
        assert_eq!((none.count(), none.max(), none.quantile(0.99)), (0, Nanos::ZERO, Nanos::ZERO));
    }

    #[test]
    fn buckets_are_contiguous() {
        for bucket in 0..BUCKETS - 1 {
            assert_eq!(bucket_of(top_of(bucket)), bucket);
            assert_eq!(bucket_of(Nanos(top_of(bucket).0 + 1)), bucket + 1);
        }
        assert_eq!((bucket_of(Nanos::ZERO), bucket_of(Nanos(u64::MAX))), (0, BUCKETS - 1));
    }

    #[test]
    fn spans_shorter_than_a_power_of_two_are_counted_exactly() {
        let mut all = Histogram::default();
        [0, 511, 512, 1023, 1024, 1 << 34, u64::MAX].into_iter().for_each(|ns| all.record(Nanos(ns)));
        let numbers = [9, 10, 11, 33, 34].map(|exponent| all.shorter_than(exponent));
        assert_eq!(numbers, [2, 4, 5, 5, 5]);
        assert_eq!([0, 8].map(|exponent| all.shorter_than(exponent)), [2, 2]);
        assert_eq!([35, 64].map(|exponent| all.shorter_than(exponent)), [5, 5]);
    }

    #[test]
    fn what_was_counted_since_an_earlier_reading_has_its_own_quantiles() {
        let mut all = Histogram::default();
        (0..10).for_each(|_| all.record(Nanos(1_000_000)));
        let earlier = all.clone();
        assert_eq!(all.since(&earlier), Histogram::default());
        (0..4).for_each(|_| all.record(Nanos(2_000)));
        let since = all.since(&earlier);
        assert_eq!((since.count(), since.sum(), since.quantile(0.5)), (4, Nanos(8_000), since.max()));
        assert!((2_000..=2_250).contains(&since.max().0), "{since:?}");
        all.record(Nanos(3_000_000));
        assert_eq!(all.since(&earlier).max(), Nanos(3_000_000));
    }

    proptest! {
        #[test]
        fn quantiles_are_at_most_an_eighth_too_long(
            mut spans in prop::collection::vec(LEAST..20_000_000_000, 1..200),
            quantile in 0.0..=1.0f64,
        ) {
            let (mut one, mut other) = (Histogram::default(), Histogram::default());
            spans.iter().for_each(|&ns| if ns % 2 == 0 { &mut one } else { &mut other }.record(Nanos(ns)));
            one.merge(&other);
            spans.sort_unstable();
            let rank = ((quantile * spans.len() as f64).ceil() as usize).max(1);
            let (exact, told) = (spans[rank - 1], one.quantile(quantile).0);
            prop_assert!(told >= exact && told as f64 <= exact as f64 * 1.125 + 1.0, "{told} for {exact}");
            prop_assert_eq!((one.count(), one.sum().0), (spans.len() as u64, spans.iter().sum()));
            prop_assert_eq!(one.max().0, *spans.last().unwrap());
        }
    }
}
