//! The parts that benches share: a promised figure, printed and compared with its limit.
//!
//! `boot`, `cap`, `halt`, `memory`, `pick_next`, `simulator` and `doorbell` measure promises of `docs/results.md`,
//! `hostile` and `jail` those of `docs/security.md`, and fail if one does not hold. `slot` measures costs that the
//! design relies on. Each takes seconds, `cap`, `hostile` and `jail` minutes; `-- --quick` makes them shorter. Without
//! KVM, benches that need it say so and end.

use std::fmt;
use std::process::ExitCode;

/// A promised figure: the median of its samples keeps to a limit.
#[derive(Debug, Clone)]
pub struct Promise {
    /// The name of the figure.
    pub what: String,
    /// Unit of samples and limit.
    pub unit: &'static str,
    /// The samples, unordered.
    pub samples: Vec<f64>,
    /// The limit of the median.
    pub limit: Limit,
}

/// The range in which a median must lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Limit {
    /// Below this.
    Below(f64),
    /// At this or above.
    AtLeast(f64),
}

impl Promise {
    /// Whether the promise holds. Without samples it does not.
    pub fn holds(&self) -> bool {
        let median = self.quantile(0.5);
        match self.limit {
            Limit::Below(limit) => median < limit,
            Limit::AtLeast(limit) => median >= limit,
        }
    }

    /// See [`quantile`].
    pub fn quantile(&self, part: f64) -> f64 {
        quantile(&self.samples, part)
    }
}

/// The sample that this part of all samples does not exceed; NaN without samples.
pub fn quantile(samples: &[f64], part: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Below(limit) => write!(f, "below {limit}"),
            Self::AtLeast(limit) => write!(f, "at least {limit}"),
        }
    }
}

impl fmt::Display for Promise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, unit, samples, limit } = self;
        let median = self.quantile(0.5);
        let (bad, rank, worst, name) = match limit {
            Limit::Below(_) => (self.quantile(0.99), "p99", self.quantile(1.0), "max"),
            Limit::AtLeast(_) => (self.quantile(0.01), "p1", self.quantile(0.0), "min"),
        };
        let n = samples.len();
        write!(
            f,
            "{what}: median {median:.3} {unit}, {rank} {bad:.3}, {name} {worst:.3}, n = {n}; promised: {limit} {unit}"
        )
    }
}

/// Prints all promises. Fails if one does not hold.
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
        Promise { what: "boot".into(), unit: "ms", samples: samples.to_vec(), limit: Limit::Below(5.0) }
    }

    #[test]
    fn quantiles_are_samples_and_the_median_decides() {
        let promise = promise(&[9.0, 1.0, 2.0, 3.0]);
        assert_eq!((promise.quantile(0.5), promise.quantile(0.99), promise.quantile(1.0)), (2.0, 9.0, 9.0));
        assert!(promise.holds());
    }

    #[test]
    fn a_limit_may_be_one_to_reach() {
        let reaches = |limit| Promise { limit: Limit::AtLeast(limit), ..promise(&[1.0, 2.0, 3.0]) }.holds();
        assert!(reaches(2.0) && !reaches(2.1));
    }

    #[test]
    fn a_promise_without_samples_does_not_hold() {
        assert!(!promise(&[]).holds());
        assert!(!Promise { limit: Limit::AtLeast(0.0), ..promise(&[]) }.holds());
    }
}
