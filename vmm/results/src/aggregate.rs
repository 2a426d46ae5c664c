//! Makes a report of samples: groups them by cell and computes each cell's figures.
//!
//! The result depends on the samples and the context only, not on the order in which the samples arrived.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{BASELINE, Cell, Params, Report, RunContext, SCHEMA, Sample};
use super::stats;
use stile_suites::{Metric, Suite};

/// Values of one cell by round.
type Rounds = BTreeMap<u32, f64>;
/// The key of a cell: suite, parameters, rank of its policy, metric. The order of a report.
type Key<'a> = (Suite, &'a Params, usize, Metric);

/// Labels that tell the entries of a policy list apart: the second `host` becomes `host#2`. So a comparison of a policy
/// with itself shows the differences that chance makes.
pub fn distinct_labels(policies: &[String]) -> Vec<String> {
    let earlier = |index: usize| policies[..index].iter().filter(|other| **other == policies[index]).count();
    let label = |(index, name): (usize, &String)| match earlier(index) {
        0 => name.clone(),
        n => format!("{name}#{}", n + 1),
    };
    policies.iter().enumerate().map(label).collect()
}

impl Report {
    /// The report of a run. Of two samples for the same run and round the later one counts.
    pub fn from_samples(samples: &[Sample], context: RunContext) -> Self {
        let RunContext {
            command,
            host,
            mut policies,
            seed,
            interrupted,
            simulated,
            reference,
            mut notes,
            mut disturbed,
        } = context;
        for sample in samples {
            if !policies.contains(&sample.policy) {
                policies.push(sample.policy.clone());
            }
        }
        let groups = group(samples, &policies, &mut notes);
        let cells = groups.iter().map(|(&(suite, params, rank, metric), by_round)| {
            let values: Vec<f64> = by_round.values().copied().collect();
            let gapless = by_round.keys().copied().eq(0..by_round.len() as u32);
            Cell {
                suite,
                policy: policies[rank].clone(),
                params: params.clone(),
                metric,
                unit: suite.unit(metric).to_owned(),
                better: metric.better(),
                median: stats::median(&values).expect("a group exists because it has a value"),
                ci95: stats::median_interval(&values, seed),
                ratio: None,
                ratio_ci95: None,
                rounds: (!gapless).then(|| by_round.keys().copied().collect()),
                samples: values,
            }
        });
        let cells = cells.collect();
        let rounds = samples.iter().map(|sample| sample.round).collect::<BTreeSet<_>>().len() as u32;
        let reference = reference.unwrap_or_else(|| BASELINE.to_owned());
        disturbed.runs.sort_by_key(|runs| policies.iter().position(|policy| *policy == runs.policy));
        let schema = SCHEMA;
        let mut report =
            Self { schema, command, host, seed, rounds, interrupted, simulated, reference, notes, disturbed, cells };
        report.set_ratios();
        report
    }
}

/// Values by cell. A value that is not a finite number is left out, with a note: JSON cannot hold it, and it would make
/// the median meaningless.
fn group<'a>(samples: &'a [Sample], policies: &[String], notes: &mut Vec<String>) -> BTreeMap<Key<'a>, Rounds> {
    let mut groups: BTreeMap<Key<'_>, Rounds> = BTreeMap::new();
    for sample in samples {
        let Some(rank) = policies.iter().position(|policy| *policy == sample.policy) else { continue };
        for (&metric, &value) in &sample.values {
            if value.is_finite() {
                let rounds = groups.entry((sample.suite, &sample.params, rank, metric)).or_default();
                rounds.insert(sample.round, value);
            } else {
                let (suite, policy, size, round) =
                    (sample.suite, &sample.policy, sample.params.size_label(), sample.round);
                notes.push(format!("{suite}, {size}, {policy}, round {round}: {} was {value}", metric.name()));
            }
        }
    }
    groups
}

/// The headline cells: the ratios that decide how a policy compares with the reference, of metrics that a ratio judges.
pub fn headline_ratios(report: &Report) -> impl Iterator<Item = &Cell> {
    let decides = |cell: &&Cell| cell.suite.headline().contains(&cell.metric) && cell.suite.judges(cell.metric);
    report.cells.iter().filter(|cell| !cell.is_of(&report.reference) && cell.ratio.is_some()).filter(decides)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Interval;
    use crate::testing::ticket;

    fn report(samples: &[Sample]) -> Report {
        Report::from_samples(samples, RunContext { seed: 1, ..RunContext::default() })
    }

    fn of<'a>(report: &'a Report, policy: &str) -> &'a Cell {
        report.cells.iter().find(|cell| cell.policy == policy).unwrap()
    }

    #[test]
    fn ratio_is_the_median_of_pairs_not_the_ratio_of_medians() {
        let mut samples = ticket("host", Metric::Throughput, &[1.0, 10.0, 100.0]);
        samples.extend(ticket("rsdl", Metric::Throughput, &[2.0, 10.0, 300.0]));
        let report = report(&samples);
        let cell = of(&report, "rsdl");
        assert_eq!((cell.median, cell.ratio), (10.0, Some(2.0)));
        assert_eq!(cell.ratio_ci95, Some(Interval { lo: 1.0, hi: 3.0 }));
        assert_eq!(of(&report, "host").ratio, Some(1.0));
    }

    #[test]
    fn without_a_baseline_there_is_no_ratio() {
        let report = report(&ticket("rsdl", Metric::Throughput, &[1.0, 2.0, 3.0]));
        assert_eq!((report.cells[0].ratio, report.cells[0].ratio_ci95), (None, None));
    }

    #[test]
    fn arrival_order_does_not_change_the_cells() {
        let mut samples = ticket("host", Metric::Throughput, &[1.0, 2.0, 3.0]);
        samples.extend(ticket("rsdl", Metric::Throughput, &[2.0, 5.0, 3.0]));
        let policies = vec!["host".to_owned(), "rsdl".to_owned()];
        let context = RunContext { policies, ..RunContext::default() };
        let forwards = Report::from_samples(&samples, context.clone());
        samples.reverse();
        assert_eq!(Report::from_samples(&samples, context), forwards);
    }

    #[test]
    fn a_policy_compared_with_itself_gets_two_labels() {
        let listed = ["host", "rsdl", "host", "host"].map(str::to_owned);
        assert_eq!(distinct_labels(&listed), ["host", "rsdl", "host#2", "host#3"]);
    }

    #[test]
    fn a_value_that_is_no_number_is_left_out_with_a_note() {
        let report = report(&ticket("host", Metric::Jain, &[f64::NAN, 0.5]));
        assert_eq!(report.cells[0].samples, [0.5]);
        assert!(report.notes[0].contains("round 0: jain was NaN"), "{:?}", report.notes);
    }

    #[test]
    fn no_samples_give_an_empty_report() {
        let report = report(&[]);
        assert_eq!((report.rounds, report.cells.len()), (0, 0));
    }
}
