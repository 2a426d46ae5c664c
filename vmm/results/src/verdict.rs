//! Whether a cell is better or worse than the reference, and how surely.
//!
//! The rule is one sentence: the interval of the paired ratio lies wholly on one side of 1, by more than [`MATTERS`]:
//! two indices close to 1 differ in their last digit every time. It is called proved only
//! with enough rounds for the interval to have its nominal coverage (see [`super::stats`]). No correction is made for
//! the number of cells: chance alone marks about one in twenty cells that do not differ, and the reading guide says so.

use crate::model::Cell;
use crate::stats::MIN_FOR_VERDICT;
use stile_suites::Better;

/// A relative difference below this does not count. Not configurable: reports must be comparable.
pub const MATTERS: f64 = 0.005;

/// The verdict on a cell against the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better, or worse; `proved` unless the rounds were too few to exclude chance.
    Differs {
        /// The direction, with the metric's own sense of it.
        better: bool,
        /// Whether the rounds suffice.
        proved: bool,
    },
    /// The interval includes 1, all but touches it, or there is none.
    Open,
}

impl Verdict {
    /// A sign that reads without colour: "+" better, "-" worse, in brackets if not proved.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Differs { better: true, proved: true } => "+",
            Self::Differs { better: false, proved: true } => "−",
            Self::Differs { better: true, proved: false } => "(+)",
            Self::Differs { better: false, proved: false } => "(−)",
            Self::Open => "",
        }
    }

    /// The verdict in words; empty if it is open.
    pub fn words(self) -> Option<&'static str> {
        Some(match self {
            Self::Differs { better: true, proved: true } => "better",
            Self::Differs { better: false, proved: true } => "worse",
            Self::Differs { better: true, proved: false } => "better, but too few rounds to rule out chance",
            Self::Differs { better: false, proved: false } => "worse, but too few rounds to rule out chance",
            Self::Open => return None,
        })
    }
}

impl Cell {
    /// The verdict on this cell against the reference. Metrics that a ratio does not judge are left open.
    pub fn verdict(&self) -> Verdict {
        let Some(interval) = self.ratio_ci95.filter(|_| self.suite.judges(self.metric)) else {
            return Verdict::Open;
        };
        let higher = interval.lo > 1.0 + MATTERS;
        if !higher && interval.hi >= 1.0 - MATTERS {
            return Verdict::Open;
        }
        Verdict::Differs {
            better: higher == (self.better == Better::Higher),
            proved: self.samples.len() >= MIN_FOR_VERDICT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Report, RunContext};
    use crate::testing::ticket;
    use stile_suites::Metric;

    fn verdict(metric: Metric, host: &[f64], ours: &[f64]) -> Verdict {
        let mut samples = ticket("host", metric, host);
        samples.extend(ticket("rsdl", metric, ours));
        let report = Report::from_samples(&samples, RunContext::default());
        report.cells.iter().find(|cell| cell.policy == "rsdl").unwrap().verdict()
    }

    #[test]
    fn a_shorter_latency_is_better_and_a_lower_throughput_worse() {
        let (host, ours) = ([10.0; 5], [8.0, 7.0, 8.0, 9.0, 8.0]);
        assert_eq!(verdict(Metric::LatencyP99, &host, &ours), Verdict::Differs { better: true, proved: true });
        assert_eq!(verdict(Metric::Throughput, &host, &ours), Verdict::Differs { better: false, proved: true });
    }

    #[test]
    fn three_rounds_prove_nothing() {
        let found = verdict(Metric::Throughput, &[10.0; 3], &[20.0; 3]);
        assert_eq!(found, Verdict::Differs { better: true, proved: false });
        assert_eq!(found.sign(), "(+)");
    }

    #[test]
    fn an_interval_that_touches_one_is_open() {
        assert_eq!(verdict(Metric::Throughput, &[10.0; 5], &[10.0, 20.0, 20.0, 20.0, 20.0]), Verdict::Open);
        assert_eq!(verdict(Metric::Throughput, &[10.0; 2], &[20.0; 2]), Verdict::Open);
    }

    #[test]
    fn shares_and_activity_are_not_judged_by_their_ratio() {
        assert_eq!(verdict(Metric::HogsCpuShare, &[1.9; 5], &[1.0; 5]), Verdict::Open);
        assert_eq!(verdict(Metric::ExitsPerS, &[1000.0; 5], &[2000.0; 5]), Verdict::Open);
    }
}
