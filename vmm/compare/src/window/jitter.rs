//! How evenly work is spread over a window: a count is read once in each of its slices.

use std::time::{Duration, Instant};

/// Slices of a window: enough for a standard deviation, and each long against a reading.
const SLICES: u32 = 20;

/// Sleeps through a window and returns the growth of a count in each slice (units: 1/s); `None` if the user ended the
/// run.
pub(crate) fn rates(window: Duration, sleep: impl Fn(Duration) -> bool, count: impl Fn() -> u64) -> Option<Vec<f64>> {
    let begun = Instant::now();
    let mut last = (begun, count());
    let mut rates = Vec::with_capacity(SLICES as usize);
    for slice in 1..=SLICES {
        let end = begun + window * slice / SLICES;
        if !sleep(end.saturating_duration_since(Instant::now())) {
            return None;
        }
        let now = (Instant::now(), count());
        rates.push(now.1.wrapping_sub(last.1) as f64 / (now.0 - last.0).as_secs_f64());
        last = now;
    }
    Some(rates)
}

/// Standard deviation of the rates relative to their mean (units: %); `None` if there was no work.
pub(crate) fn jitter(rates: &[f64]) -> Option<f64> {
    let n = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / n;
    let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / n;
    (mean > 0.0).then(|| 100.0 * variance.sqrt() / mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn steady_work_has_no_jitter_and_work_in_every_other_slice_as_much_as_it_does() {
        assert_eq!(jitter(&[3.0; 20]), Some(0.0));
        assert_eq!(jitter(&[0.0, 8.0, 0.0, 8.0]), Some(100.0));
        assert_eq!(jitter(&[0.0; 20]), None);
        assert_eq!(jitter(&[]), None);
    }

    #[test]
    fn each_slice_has_what_was_counted_in_it() {
        let looks = Cell::new(0);
        let count = || {
            looks.set(looks.get() + 1);
            looks.get()
        };
        let rates = rates(Duration::ZERO, |_| true, count).unwrap();
        assert_eq!((rates.len(), looks.get()), (SLICES as usize, u64::from(SLICES) + 1));
        assert!(rates.iter().all(|rate| *rate > 0.0));
    }

    #[test]
    fn a_run_ended_by_the_user_has_no_rates() {
        assert_eq!(rates(Duration::from_secs(3600), |_| false, || 0), None);
    }
}
