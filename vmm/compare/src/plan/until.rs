//! When enough rounds have been run: the interval of every headline ratio is narrow, or the time is up.
//!
//! A run ends by the *width* of its intervals, never by their place: a run that went on until a difference showed would
//! find one. It needs [`MIN_FOR_VERDICT`] rounds, below which intervals are the samples' range.

use std::time::{Duration, Instant};
use stile_results::aggregate::headline_ratios;
use stile_results::model::{Report, RunContext, Sample};
use stile_results::stats::MIN_FOR_VERDICT;

/// The width that intervals should have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Until {
    /// The largest length of an interval over its ratio.
    pub width: f64,
    /// No round begins that would end later.
    pub limit: Duration,
}

impl Until {
    /// The largest number of rounds.
    pub(super) const MOST_ROUNDS: u32 = 1000;
}

/// Decides after each round whether a run goes on.
pub(crate) struct Watch {
    until: Until,
    began: Instant,
    round_began: Instant,
    longest_round: Duration,
}

impl Watch {
    pub(crate) fn new(until: Until) -> Self {
        let now = Instant::now();
        Self { until, began: now, round_began: now, longest_round: Duration::ZERO }
    }

    /// Call after a round of these policies. Returns a sentence that says why it was the last one; `None` if it was
    /// not.
    pub(crate) fn enough(&mut self, policies: Vec<String>, seed: u64, samples: &[Sample]) -> Option<String> {
        let now = Instant::now();
        self.longest_round = self.longest_round.max(now - self.round_began);
        self.round_began = now;
        let context = RunContext { policies, seed, ..RunContext::default() };
        self.until.enough(&Report::from_samples(samples, context), now - self.began + self.longest_round)
    }
}

impl Until {
    /// Whether the measured rounds suffice, if one more round would end after this time.
    fn enough(&self, report: &Report, next: Duration) -> Option<String> {
        let ratios: Vec<_> = headline_ratios(report).collect();
        let widest = ratios.iter().filter_map(|cell| Some((cell.relative_width()?, cell)));
        let widest = widest.max_by(|a, b| a.0.total_cmp(&b.0));
        let narrow = |cell: &&_| stile_results::Cell::relative_width(cell).is_some_and(|width| width <= self.width);
        let narrow = ratios.iter().copied().filter(narrow).count();
        let (rounds, of) =
            (stile_text::count(report.rounds as usize, "round"), stile_text::count(ratios.len(), "headline ratio"));
        let width = stile_text::percent(self.width);
        if report.rounds as usize >= MIN_FOR_VERDICT && narrow == ratios.len() && narrow > 0 {
            return Some(format!("Ended after {rounds}: the interval of each of {of} is at most {width} of it wide."));
        }
        if next <= self.limit && report.rounds < Self::MOST_ROUNDS {
            return None;
        }
        let limit = stile_text::time_us(self.limit.as_micros() as f64);
        let widest =
            widest.map(|(width, cell)| format!("; the widest is {} of {}", stile_text::percent(width), cell.words()));
        let widest = widest.unwrap_or_default();
        Some(format!(
            "Ended after {rounds} by the limit of {limit}: of {of} {narrow} had an interval at most {width} of it wide{widest}."
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use stile_results::model::Params;
    use stile_suites::Metric;
    use stile_suites::Suite;

    const WISH: Until = Until { width: 0.05, limit: Duration::from_secs(60) };

    /// Samples of the host at 100, and of a policy with these values, one for each round.
    fn report(values: &[f64]) -> Report {
        let sample = |policy: &str, round: usize, value: f64| Sample {
            suite: Suite::Ticket,
            policy: policy.to_owned(),
            params: Params::default().with("vcpus", 4),
            round: round as u32,
            values: [(Metric::Throughput, value), (Metric::Jain, 1.0), (Metric::ExitsPerS, 9.0 * value * value)].into(),
            detail: Value::Null,
        };
        let rounds = values.iter().enumerate();
        let samples: Vec<Sample> =
            rounds.flat_map(|(n, v)| [sample("host", n, 100.0), sample("rsdl", n, *v)]).collect();
        Report::from_samples(&samples, RunContext::default())
    }

    #[test]
    fn narrow_intervals_end_a_run_from_five_rounds_on() {
        let values = [120.0, 121.0, 122.0, 120.5, 121.5];
        assert_eq!(WISH.enough(&report(&values[..4]), Duration::ZERO), None);
        let told = WISH.enough(&report(&values), Duration::ZERO).unwrap();
        assert_eq!(told, "Ended after 5 rounds: the interval of each of 2 headline ratios is at most 5 % of it wide.");
    }

    #[test]
    fn the_limit_ends_a_run_whose_intervals_stay_wide_and_names_the_widest() {
        let values = [100.0, 140.0, 110.0, 130.0, 120.0];
        assert_eq!(WISH.enough(&report(&values), Duration::from_secs(60)), None);
        let told = WISH.enough(&report(&values), Duration::from_secs(61)).unwrap();
        assert!(told.starts_with("Ended after 5 rounds by the limit of 60.0 s: of 2 headline ratios 1 had"), "{told}");
        assert!(told.ends_with("the widest is 33 % of rsdl, 4 vCPUs: throughput."), "{told}");
    }

    #[test]
    fn without_ratios_only_the_limit_ends_it() {
        let only_host = Report::from_samples(&[], RunContext::default());
        assert_eq!(WISH.enough(&only_host, Duration::ZERO), None);
        assert!(WISH.enough(&only_host, Duration::from_secs(61)).is_some());
    }
}
