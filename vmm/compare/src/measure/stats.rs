//! Statistics of samples that a disturbance can only lengthen.

use stile_results::stats::median;

/// The part of the samples that are below a figure.
const LOW: f64 = 0.1;

/// The upper edge of the lowest tenth; 0 without samples.
pub(super) fn low(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() as f64 * LOW) as usize).copied().unwrap_or(0.0)
}

/// How far the median lies above that figure, as a part of it.
pub(super) fn spread(samples: &[f64]) -> f64 {
    let low = low(samples);
    if low > 0.0 { median(samples).unwrap_or(low) / low - 1.0 } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_same_while_less_than_nine_tenths_of_its_samples_are_disturbed() {
        let quiet = [100.0; 105];
        for disturbed in [0, 10, 50, 90] {
            let mut samples = quiet;
            samples[..disturbed].fill(300_000.0);
            assert_eq!(low(&samples), 100.0);
        }
        assert_eq!(spread(&quiet), 0.0);
    }

    #[test]
    fn the_spread_tells_that_half_of_the_samples_were_disturbed() {
        let mut samples = [100.0; 105];
        samples[..60].fill(150.0);
        assert_eq!(spread(&samples), 0.5);
        assert_eq!((low(&[]), spread(&[])), (0.0, 0.0));
    }
}
