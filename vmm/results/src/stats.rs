//! Statistics of few samples: medians, paired ratios, bootstrap intervals, fairness.
//!
//! Everything is a pure function; the only randomness is a generator started from a seed that the caller gives, so the
//! same samples and seed give the same report, bit for bit. Sample values are finite; the caller drops others.
//!
//! How far an interval can be trusted: the bootstrap of a median knows no more than the samples. Up to five rounds it
//! is the samples' range, which covers the true median with probability 1 - 2^(1-n): 75 % for three
//! rounds, 88 % for four, 94 % for five. Beyond that the bootstrap alone would be too sure of itself (88 % for seven),
//! so an interval is never narrower than the order statistics that cover the median in 92.5 % of all cases, whatever
//! the samples' distribution (Thompson 1936). Below [`MIN_FOR_INTERVAL`] no interval is given at all, and a report
//! calls a difference proved only from [`MIN_FOR_VERDICT`] rounds on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Fewest samples that get an interval: the range of two is as likely to miss the median as to cover it.
pub const MIN_FOR_INTERVAL: usize = 3;
/// Fewest samples whose interval has about its nominal coverage (94 %).
pub const MIN_FOR_VERDICT: usize = 5;
/// Resamplings per interval. The interval's ends are then stable to well below the spread of the samples, at some 0.1
/// ms per cell. Not configurable: reports must be comparable.
const RESAMPLES: usize = 2000;
/// Probability mass left out at each end of an interval.
const TAIL: f64 = 0.025;

/// Least probability with which an interval covers the true median, from five samples on. Below the nominal 95 %, so
/// that eight samples may leave out the least and the largest (93 %).
const COVERED: f64 = 0.925;

/// A confidence interval; `[lo, hi]` in files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
pub struct Interval {
    /// Lower end.
    pub lo: f64,
    /// Upper end.
    pub hi: f64,
}

impl From<[f64; 2]> for Interval {
    fn from([lo, hi]: [f64; 2]) -> Self {
        Self { lo, hi }
    }
}

impl From<Interval> for [f64; 2] {
    fn from(interval: Interval) -> Self {
        [interval.lo, interval.hi]
    }
}

/// The median; the mean of the middle two for an even number. None without samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    median_in_place(&mut sorted)
}

fn median_in_place(samples: &mut [f64]) -> Option<f64> {
    samples.sort_unstable_by(f64::total_cmp);
    let middle = samples.len() / 2;
    match samples.len() {
        0 => None,
        n if n % 2 == 1 => Some(samples[middle]),
        _ => Some(samples[middle - 1].midpoint(samples[middle])),
    }
}

/// The smallest value at or below which at least the fraction `quantile` of all counts lies.
///
/// `buckets` are (value, count) in ascending order of value. None if nothing was counted.
pub fn percentile(buckets: &[(u64, u64)], quantile: f64) -> Option<u64> {
    let total: u64 = buckets.iter().map(|&(_, count)| count).sum();
    // At least the first one counted, so that quantile 0 is the minimum and not an empty bucket before it.
    let rank = ((total as f64 * quantile).ceil() as u64).clamp(1, total.max(1));
    let mut seen = 0;
    buckets.iter().find_map(|&(value, count)| {
        seen += count;
        (seen >= rank).then_some(value)
    })
}

/// The 95 % bootstrap percentile interval of the median. None below [`MIN_FOR_INTERVAL`] samples.
pub fn median_interval(samples: &[f64], seed: u64) -> Option<Interval> {
    if samples.len() < MIN_FOR_INTERVAL {
        return None;
    }
    let mut random = SplitMix(seed);
    let mut resample = vec![0.0; samples.len()];
    let mut medians = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        resample.fill_with(|| samples[random.below(samples.len())]);
        medians.extend(median_in_place(&mut resample));
    }
    medians.sort_unstable_by(f64::total_cmp);
    let cut = (RESAMPLES as f64 * TAIL) as usize;
    let mut sorted = samples.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let left_out = left_out(samples.len());
    let (lo, hi) = (sorted[left_out], sorted[samples.len() - 1 - left_out]);
    Some(Interval { lo: lo.min(medians[cut]), hi: hi.max(medians[RESAMPLES - 1 - cut]) })
}

/// Probability with which the interval of this many samples misses the true median. Up to five samples it is their
/// range. Beyond that the probability is nearly that of the level.
pub fn miss(samples: usize) -> f64 {
    0.5f64.powi(samples as i32 - 1).max(2.0 * TAIL)
}

/// How many samples may be left out at either end so that the range of the others still covers the median in
/// [`COVERED`] of all cases. It misses if this many samples or fewer fall on one side: a binomial probability.
fn left_out(samples: usize) -> usize {
    // Exactly `n` on one side; then at most `n`.
    let (mut exactly, mut at_most) = (0.5f64.powi(samples as i32), 0.0);
    for n in 0..samples {
        at_most += exactly;
        if 1.0 - 2.0 * at_most < COVERED {
            return n.saturating_sub(1);
        }
        exactly *= (samples - n) as f64 / (n + 1) as f64;
    }
    0
}

/// Each round's value over the reference's value in the same round.
///
/// Rounds that only one side has are left out, so an interrupted run still compares like with like. None if no round is
/// left, or if the reference was 0 in one: such a ratio has no meaning, and dropping that round alone would hide it.
pub fn paired_ratios(values: &BTreeMap<u32, f64>, baseline: &BTreeMap<u32, f64>) -> Option<Vec<f64>> {
    let pairs = values.iter().filter_map(|(round, value)| Some((*value, *baseline.get(round)?)));
    let ratios: Option<Vec<f64>> = pairs.map(|(value, base)| (base != 0.0).then(|| value / base)).collect();
    ratios.filter(|ratios| !ratios.is_empty())
}

/// Jain's index of fairness: 1 if all parts are equal, 1/n if one part has everything. None if there is nothing to
/// share.
pub fn jain(parts: &[f64]) -> Option<f64> {
    // Scaled to the largest part first: squares of large counts would lose precision or overflow.
    let largest = parts.iter().copied().fold(0.0, f64::max);
    if largest <= 0.0 {
        return None;
    }
    let sum: f64 = parts.iter().map(|part| part / largest).sum();
    let squares: f64 = parts.iter().map(|part| (part / largest).powi(2)).sum();
    Some(sum * sum / (parts.len() as f64 * squares))
}

/// The smallest part relative to an equal share (1.0 = fair). None if there is nothing to share.
pub fn min_share(parts: &[f64]) -> Option<f64> {
    share(parts, parts.iter().copied().reduce(f64::min)?)
}

/// The largest part relative to an equal share (1.0 = fair). None if there is nothing to share.
pub fn max_share(parts: &[f64]) -> Option<f64> {
    share(parts, parts.iter().copied().reduce(f64::max)?)
}

fn share(parts: &[f64], part: f64) -> Option<f64> {
    let mean = parts.iter().sum::<f64>() / parts.len() as f64;
    (mean > 0.0).then(|| part / mean)
}

/// SplitMix64 (Steele, Lea, Flood 2014): a few lines, any seed is a good one.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// An index below `bound`. The bias is below bound / 2^64.
    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rounds(values: &[f64]) -> BTreeMap<u32, f64> {
        (0..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn median_of_odd_even_and_no_samples() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn percentile_takes_the_bucket_where_the_rank_falls() {
        let buckets = [(1, 0), (10, 50), (20, 49), (30, 1)];
        assert_eq!(percentile(&buckets, 0.0), Some(10));
        assert_eq!(percentile(&buckets, 0.5), Some(10));
        assert_eq!(percentile(&buckets, 0.51), Some(20));
        assert_eq!(percentile(&buckets, 0.99), Some(20));
        assert_eq!(percentile(&buckets, 1.0), Some(30));
        assert_eq!(percentile(&[(1, 0)], 0.5), None);
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn one_or_two_samples_have_no_interval() {
        assert_eq!(median_interval(&[5.0], 1), None);
        assert_eq!(median_interval(&[5.0, 6.0], 1), None);
    }

    #[test]
    fn up_to_five_samples_the_interval_is_their_range() {
        for n in 3..=5u32 {
            let samples: Vec<f64> = (0..n).map(f64::from).collect();
            for seed in 0..20 {
                assert_eq!(median_interval(&samples, seed), Some(Interval { lo: 0.0, hi: f64::from(n - 1) }));
            }
        }
    }

    #[test]
    fn an_interval_leaves_out_no_more_than_its_coverage_permits() {
        // By hand: 7 samples without the outermost cover in 87.5 %, 8 in 93 %, 11 without two at each end in 93.5 %.
        assert_eq!([3, 5, 6, 7, 8, 9, 10, 11].map(left_out), [0, 0, 0, 0, 1, 1, 1, 2]);
        let seven: Vec<f64> = (0..7).map(f64::from).collect();
        assert_eq!(median_interval(&seven, 3), Some(Interval { lo: 0.0, hi: 6.0 }));
        assert!(left_out(1000) > 460 && left_out(1000) < 480);
    }

    #[test]
    fn a_lone_outlier_stays_outside_the_interval_of_many_samples() {
        let mut samples: Vec<f64> = (0..20).map(f64::from).collect();
        samples.push(1e6);
        assert!(median_interval(&samples, 7).unwrap().hi < 20.0);
    }

    #[test]
    fn zero_in_the_baseline_leaves_no_ratio() {
        assert_eq!(paired_ratios(&rounds(&[1.0, 2.0]), &rounds(&[1.0, 0.0])), None);
    }

    #[test]
    fn rounds_without_a_partner_are_left_out() {
        let ratios = paired_ratios(&rounds(&[2.0, 9.0]), &BTreeMap::from([(0, 1.0), (5, 3.0)]));
        assert_eq!(ratios, Some(vec![2.0]));
        assert_eq!(paired_ratios(&rounds(&[2.0]), &BTreeMap::from([(1, 1.0)])), None);
    }

    #[test]
    fn shares_of_a_known_division() {
        assert_eq!(jain(&[1.0, 0.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(min_share(&[1.0, 3.0]), Some(0.5));
        assert_eq!(max_share(&[1.0, 3.0]), Some(1.5));
        assert_eq!((jain(&[0.0, 0.0]), min_share(&[]), max_share(&[0.0])), (None, None, None));
    }

    proptest! {
        #[test]
        fn jain_lies_between_one_nth_and_one(parts in prop::collection::vec(0.0..1e12_f64, 1..64)) {
            if let Some(index) = jain(&parts) {
                let least = 1.0 / parts.len() as f64;
                prop_assert!(index >= least * (1.0 - 1e-9) && index <= 1.0 + 1e-9, "{index}");
            }
        }

        #[test]
        fn the_interval_contains_the_median_and_lies_in_the_range(
            samples in prop::collection::vec(-1e6..1e6_f64, 3..40), seed: u64,
        ) {
            let middle = median(&samples).unwrap();
            let Interval { lo, hi } = median_interval(&samples, seed).unwrap();
            prop_assert!(lo <= middle && middle <= hi);
            prop_assert!(samples.iter().any(|&s| s <= lo) && samples.iter().any(|&s| s >= hi));
        }

        #[test]
        fn scaling_the_samples_scales_the_interval(
            samples in prop::collection::vec(1.0..1e6_f64, 3..20), exponent in -8..8_i32, seed: u64,
        ) {
            // A power of two, so that scaling is exact.
            let factor = 2f64.powi(exponent);
            let scaled: Vec<f64> = samples.iter().map(|sample| sample * factor).collect();
            let (plain, scaled) = (median_interval(&samples, seed).unwrap(), median_interval(&scaled, seed).unwrap());
            prop_assert_eq!(scaled, Interval { lo: plain.lo * factor, hi: plain.hi * factor });
        }

        #[test]
        fn pairing_cancels_what_a_round_has_in_common(
            base in prop::collection::vec(1.0..1e6_f64, 1..20),
            weather in prop::collection::vec(-8..8_i32, 20),
            ratio in 0.1..10.0_f64,
        ) {
            // The machine makes each round slower or faster for both sides alike.
            let base = base.iter().zip(&weather).map(|(value, &exponent)| value * 2f64.powi(exponent));
            let base: Vec<f64> = base.collect();
            let ours: Vec<f64> = base.iter().map(|value| value * ratio).collect();
            for found in paired_ratios(&rounds(&ours), &rounds(&base)).unwrap() {
                prop_assert!((found / ratio - 1.0).abs() < 1e-12);
            }
        }

        #[test]
        fn percentiles_grow_with_the_quantile(
            counts in prop::collection::vec(0..100_u64, 1..50), a in 0.0..=1.0_f64, b in 0.0..=1.0_f64,
        ) {
            let buckets: Vec<(u64, u64)> = (0..).zip(counts).collect();
            prop_assert!(percentile(&buckets, a.min(b)) <= percentile(&buckets, a.max(b)));
        }
    }
}
