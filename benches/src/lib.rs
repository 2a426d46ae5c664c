//! What the benches share: a figure that was promised, told and held against its limit.
//!
//! `boot` and `memory` measure what the README promises and fail when it does not hold; `slot` measures what the design
//! takes for granted. Each takes seconds, with `-- --quick` fewer. Without KVM, those that need it say so and end.

use std::fmt;
use std::process::ExitCode;

/// A promised figure: the median of its samples stays below a limit.
#[derive(Debug, Clone)]
pub struct Promise {
    /// What was measured.
    pub what: String,
    /// Unit of samples and limit.
    pub unit: &'static str,
    /// All of them, unordered.
    pub samples: Vec<f64>,
    /// The median must be below.
    pub limit: f64,
}

impl Promise {
    /// Whether it holds; not without samples.
    pub fn holds(&self) -> bool {
        self.quantile(0.5) < self.limit
    }

    /// The sample that this part of all samples does not exceed; without samples no number.
    pub fn quantile(&self, part: f64) -> f64 {
        let mut sorted = self.samples.clone();
        sorted.sort_by(f64::total_cmp);
        let rank = (part * sorted.len() as f64).ceil() as usize;
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, unit, samples, limit } = self;
        let (median, p99, max) = (self.quantile(0.5), self.quantile(0.99), self.quantile(1.0));
        let n = samples.len();
        write!(
            f,
            "{what}: median {median:.3} {unit}, p99 {p99:.3}, max {max:.3}, n = {n}; promised: below {limit} {unit}"
        )
    }
}

/// Tells all promises; fails if one does not hold.
pub fn tell(promises: &[Promise]) -> ExitCode {
    for promise in promises {
        println!("{promise}{}", if promise.holds() { "" } else { " - BROKEN" });
    }
    if promises.iter().all(Promise::holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promise(samples: &[f64]) -> Promise {
        Promise { what: "boot".into(), unit: "ms", samples: samples.to_vec(), limit: 5.0 }
    }

    #[test]
    fn quantiles_are_samples_and_the_median_decides() {
        let promise = promise(&[9.0, 1.0, 2.0, 3.0]);
        assert_eq!((promise.quantile(0.5), promise.quantile(0.99), promise.quantile(1.0)), (2.0, 9.0, 9.0));
        assert!(promise.holds());
    }

    #[test]
    fn a_promise_without_samples_does_not_hold() {
        assert!(!promise(&[]).holds());
    }
}
