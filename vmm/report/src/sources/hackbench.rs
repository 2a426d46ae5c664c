//! Ten runs of `hackbench 50` on a 4-way machine under 2.6.24.7-rt6, then with lateral lock stealing, and then with
//! adaptive spinning as well.

use super::claims::{Claims, Found};
use super::table::{SourceTable, cell, none, params_of, times};
use stile_results::model::{BASELINE, Cell, Params, Report};
use stile_results::stats;
use stile_suites::{Metric, Suite};
use stile_text::time_us;

/// A smaller difference does not count.
const MATTERS: f64 = 0.05;

/// One stage: its name, the policy for it, and the source's runs (unit: s).
type Stage = (&'static str, &'static str, &'static [f64]);

/// The stages. The last one is the kernel that the source compares them with.
const STAGES: [Stage; 4] = [
    (
        "neither",
        "rsdl:no-lateral:no-adaptive",
        &[16.651, 16.773, 16.500, 17.437, 16.267, 18.296, 16.524, 17.452, 18.595, 18.357],
    ),
    ("+ lateral steal", "rsdl:no-adaptive", &[7.853, 8.219, 7.967, 8.118, 8.195, 8.349, 8.122, 8.146, 8.197, 8.026]),
    ("+ adaptive spin", "rsdl", &[4.752, 4.830, 4.896, 4.858, 4.801, 4.885, 4.794, 4.883, 4.852, 4.911]),
    ("the stock scheduler", BASELINE, &[3.9]),
];

/// The table of the largest size that was run; `None` if the suite was not run with built-in guests.
pub(super) fn table(report: &Report, citation: &'static str) -> Option<SourceTable> {
    let params = *params_of(report, Suite::Hackbench).last().filter(|params| params.get("guest").is_none())?;
    let ours = |policy: &str| cell(report, Suite::Hackbench, params, policy, Metric::RunTime);
    let row = |(name, policy, source): &Stage| {
        let here = ours(policy);
        vec![
            (*name).to_owned(),
            seconds(source),
            median(source),
            here.map_or_else(none, |cell| listed(&cell.samples)),
            here.map_or_else(none, |cell| time_us(cell.median)),
        ]
    };
    let stages = STAGES.map(|(_, policy, source)| (stats::median(source).unwrap_or_default(), ours(policy)));
    Some(SourceTable {
        title: format!("hackbench, {}", words(params)),
        citation,
        header: ["stage", "source: runs", "median", "here: runs", "median"].map(str::to_owned).to_vec(),
        rows: STAGES.iter().map(row).collect(),
        findings: claims(&stages).into_iter().collect::<Claims>().findings(),
    })
}

/// The source's claim on each stage, and whether it holds here: the source's medians and the cells of [`STAGES`].
fn claims(stages: &[(f64, Option<&Cell>); 4]) -> Vec<(Found, String)> {
    let pairs = [(1, 0, "lateral steal"), (2, 1, "adaptive spin"), (2, 3, "both, beside the stock scheduler,")];
    let claim = |(after, before, name): (usize, usize, &str)| {
        let (source, after, before) = (stages[after].0 / stages[before].0, stages[after].1?, stages[before].1?);
        let here = after.median / before.median;
        let text = format!("{name} makes the time {} (source {})", times(here), times(source));
        Some((Found::from(way(here) == way(source)).unless_overlap(after, before), text))
    };
    pairs.into_iter().filter_map(claim).collect()
}

/// Whether it is shorter, longer or neither.
fn way(ratio: f64) -> i8 {
    i8::from(ratio > 1.0 + MATTERS) - i8::from(ratio < 1.0 - MATTERS)
}

fn words(params: &Params) -> String {
    let (size, variant) = (params.size_label(), params.variant());
    format!("{size} here, 50 groups in the source{}{variant}", if variant.is_empty() { "" } else { "; " })
}

fn seconds(runs: &[f64]) -> String {
    runs.iter().map(|s| format!("{s:.2}")).collect::<Vec<_>>().join(" ")
}

fn median(runs: &[f64]) -> String {
    stats::median(runs).map_or_else(none, |s| time_us(s * 1e6))
}

/// Times in microseconds, in seconds.
fn listed(runs: &[f64]) -> String {
    seconds(&runs.iter().map(|us| us / 1e6).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use stile_results::model::{RunContext, Sample};

    fn sample(policy: &str, seconds: f64) -> Sample {
        Sample {
            suite: Suite::Hackbench,
            policy: policy.to_owned(),
            params: Params::default().with("groups", 50),
            round: 0,
            values: [(Metric::RunTime, seconds * 1e6)].into(),
            detail: Value::Null,
        }
    }

    fn report(times: &[(&str, f64)]) -> Report {
        let samples: Vec<_> = times.iter().map(|(policy, seconds)| sample(policy, *seconds)).collect();
        Report::from_samples(&samples, RunContext::default())
    }

    fn made_of(report: &Report) -> Option<SourceTable> {
        table(report, "a source")
    }

    #[test]
    fn a_report_without_the_suite_has_no_table() {
        assert_eq!(made_of(&report(&[])), None);
    }

    #[test]
    fn linux_guests_are_not_what_the_source_is_about() {
        let of_linux = Sample {
            suite: Suite::Hackbench,
            policy: "host".to_owned(),
            params: Params::default().with("groups", 1).with("guest", "linux"),
            round: 0,
            values: [(Metric::RunTime, 1e6)].into(),
            detail: Value::Null,
        };
        assert_eq!(made_of(&Report::from_samples(&[of_linux], RunContext::default())), None);
    }

    #[test]
    fn every_stage_has_its_runs_beside_the_source_s() {
        let [neither, lateral, both] = [STAGES[0].1, STAGES[1].1, STAGES[2].1];
        let table = made_of(&report(&[(neither, 12.0), (lateral, 2.5), (both, 2.6), ("host", 2.0)])).unwrap();
        assert!(table.rows.iter().all(|row| row.len() == table.header.len()));
        assert_eq!(table.rows[1][2..], ["8.13 s", "2.50", "2.50 s"]);
        assert!(table.findings[0].contains("lateral steal makes the time 0.21 times (source 0.48 times)"));
        assert!(table.findings[1].contains("adaptive spin makes the time 1.04 times (source 0.60 times)"));
    }

    #[test]
    fn stages_whose_runs_overlap_are_not_told_apart() {
        let runs = |policy: &str, all: &[f64]| {
            let runs = all.iter().zip(0..).map(|(&seconds, round)| Sample { round, ..sample(policy, seconds) });
            runs.collect::<Vec<_>>()
        };
        let [lateral, both] = [STAGES[1].1, STAGES[2].1];
        let samples = [runs(lateral, &[2.0, 2.5, 9.0]), runs(both, &[1.0, 1.1, 3.0])].concat();
        let table = made_of(&Report::from_samples(&samples, RunContext::default())).unwrap();
        assert!(
            table.findings[0].starts_with("Open, as the intervals overlap: adaptive spin makes the time 0.44 times")
        );
    }

    #[test]
    fn what_was_not_run_is_not_compared() {
        let table = made_of(&report(&[("rsdl", 1.0)])).unwrap();
        assert_eq!((table.rows[0][3].as_str(), table.findings.len()), ("–", 0));
    }
}
