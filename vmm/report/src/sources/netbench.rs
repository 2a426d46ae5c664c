//! NetBench on one and on four processors: the O(1) scheduler against its predecessor, with stile's figures beside
//! them.

use super::claims::Claims;
use super::table::SourceTable;
use crate::format;
use crate::view;
use std::collections::BTreeMap;
use stile_results::model::{BASELINE, Cell, ParamValue, Report};
use stile_results::stats;
use stile_suites::Suite;
use stile_suites::metric::{Metric, START_GIVEN_UP};
use stile_text::{ratio, si, time_us};

/// A prompt start by the source's measure (units: us).
const PROMPT: f64 = 1e6;
/// From this number of clients on the source reports errors and late starts on one processor.
const MANY: u64 = 20;

/// One of the source's configurations.
struct Row {
    name: &'static str,
    /// Values of `machine` and `affinity` in a report. A run without them is on all pCPUs.
    machine: &'static str,
    affinity: bool,
    /// Peak throughput in the source, default scheduler and O(1) (units: Mbit/s).
    source: [f64; 2],
}

const ROWS: [Row; 3] = [
    Row { name: "one CPU", machine: "up", affinity: false, source: [275.477, 289.221] },
    Row { name: "all CPUs, affinity", machine: "smp", affinity: true, source: [741.147, 774.804] },
    Row { name: "all CPUs, no affinity", machine: "smp", affinity: false, source: [596.774, 623.589] },
];

impl Row {
    fn has(&self, cell: &Cell) -> bool {
        let param = |name| cell.params.get(name).map(ToString::to_string);
        param("machine").unwrap_or_else(|| "smp".to_owned()) == self.machine
            && param("affinity").is_some_and(|value| value == "on") == self.affinity
    }

    /// The cells of a metric under a policy.
    fn cells<'a>(&'a self, report: &'a Report, policy: &'a str, metric: Metric) -> impl Iterator<Item = &'a Cell> {
        let of = move |cell: &&Cell| cell.suite == Suite::Netbench && cell.metric == metric && cell.policy == policy;
        report.cells.iter().filter(of).filter(|cell| self.has(cell))
    }

    /// The peak over all numbers of clients, by round, for rounds that have all of them.
    fn peaks(&self, report: &Report, policy: &str) -> BTreeMap<u32, f64> {
        let cells: Vec<&Cell> = self.cells(report, policy, Metric::Throughput).collect();
        let rounds = cells.iter().map(|cell| cell.samples.len()).min().unwrap_or_default();
        let peak = |round: usize| cells.iter().map(|cell| cell.samples[round]).fold(0.0, f64::max);
        (0..).zip((0..rounds).map(peak)).collect()
    }

    fn peak(&self, report: &Report, policy: &str) -> Option<f64> {
        stats::median(&self.peaks(report, policy).into_values().collect::<Vec<_>>())
    }

    /// A policy's peak over the baseline's.
    fn to_host(&self, report: &Report, policy: &str) -> Option<f64> {
        over(&self.peaks(report, policy), &self.peaks(report, BASELINE))
    }

    /// All errors of all runs.
    fn errors(&self, report: &Report, policy: &str) -> Option<f64> {
        let all: Vec<f64> = self.cells(report, policy, Metric::ClientErrors).flat_map(|c| c.samples.clone()).collect();
        (!all.is_empty()).then(|| all.iter().sum())
    }

    /// The longest start of any run with at least this many clients (units: us).
    fn start(&self, report: &Report, policy: &str, clients: u64) -> Option<f64> {
        let cells = self.cells(report, policy, Metric::StartLatencyMax);
        let cells = cells.filter(|cell| cell.params.get("clients") >= Some(&ParamValue::Integer(clients)));
        cells.flat_map(|cell| cell.samples.clone()).reduce(f64::max)
    }
}

/// The median of the rounds' ratios, since a slow round is slow for both. `None` if there is nothing to compare with.
fn over(peaks: &BTreeMap<u32, f64>, others: &BTreeMap<u32, f64>) -> Option<f64> {
    stats::median(&stats::paired_ratios(peaks, others)?)
}

/// The table, if the report has netbench.
pub(super) fn table(report: &Report, citation: &'static str) -> Option<SourceTable> {
    let measured = report.cells.iter().any(|cell| cell.suite == Suite::Netbench);
    let policies: Vec<&str> = view::policies(report);
    let policies: Vec<&str> =
        policies.into_iter().filter(|policy| ROWS.iter().any(|row| row.peak(report, policy).is_some())).collect();
    if !measured || policies.is_empty() {
        return None;
    }
    let columns = policies.iter().map(|policy| (*policy).to_owned());
    let sources = ["source: default", "source: O(1)"].map(str::to_owned);
    let header = [String::new()].into_iter().chain(columns).chain(sources).collect();
    let rows = ROWS.iter().filter(|row| policies.iter().any(|policy| row.peak(report, policy).is_some()));
    Some(SourceTable {
        title: "netbench: peak throughput, client errors and the longest start of any run".to_owned(),
        citation,
        header,
        rows: rows.flat_map(|row| lines(row, report, &policies)).collect(),
        findings: findings(report, &policies),
    })
}

/// A start, or the time after which it was given up.
fn start_time(us: f64) -> String {
    let over = if us >= START_GIVEN_UP { "over " } else { "" };
    format!("{over}{}", time_us(us))
}

fn mbit(value: f64) -> String {
    format::value(Metric::Throughput, Suite::Netbench, value)
}

/// Three lines for each configuration.
fn lines(row: &Row, report: &Report, policies: &[&str]) -> [Vec<String>; 3] {
    let line = |what: &str, of: &dyn Fn(&str) -> Option<String>, sources: [String; 2]| {
        let fields = policies.iter().map(|policy| of(policy).unwrap_or_default());
        [format!("{}: {what}", row.name)].into_iter().chain(fields).chain(sources).collect()
    };
    let peak = |policy: &str| {
        let peak = row.peak(report, policy)?;
        let to_host = row.to_host(report, policy).filter(|_| policy != BASELINE);
        let relative = to_host.map(|to_host| format!(" ({}x)", ratio(to_host)));
        Some(format!("{}{}", mbit(peak), relative.unwrap_or_default()))
    };
    let [default, o1] = row.source;
    let told = [mbit(default), format!("{} ({}x)", mbit(o1), ratio(o1 / default))];
    let up = row.machine == "up";
    let on_up = |text: [&str; 2]| if up { text.map(str::to_owned) } else { [String::new(), String::new()] };
    [
        line("peak, Mbit/s", &peak, told),
        line("client errors", &|policy| Some(si(row.errors(report, policy)?)), on_up(["none", "from 20 clients on"])),
        line(
            "longest start of any run",
            &|policy| Some(start_time(row.start(report, policy, 0)?)),
            on_up(["within 1 s", "over 2 minutes"]),
        ),
    ]
}

fn findings(report: &Report, policies: &[&str]) -> Vec<String> {
    let mut claims = Claims::default();
    let [up, affine, free] = &ROWS;
    for row in &ROWS {
        let Some(o1) = row.to_host(report, "o1") else { continue };
        let (ours, theirs) = (ratio(o1), ratio(row.source[1] / row.source[0]));
        claims.add(o1 > 1.0, format!("{}: o1's peak is {ours} times host's (source: {theirs})", row.name));
    }
    for policy in policies {
        let Some(gain) = over(&affine.peaks(report, policy), &free.peaks(report, policy)) else { continue };
        let (ours, theirs) = (ratio(gain), ratio(affine.source[0] / free.source[0]));
        claims.add(gain > 1.0, format!("affinity gives {policy} {ours} times the peak (source: {theirs})"));
    }
    if let Some((start, errors)) = up.start(report, "o1", MANY).zip(up.errors(report, "o1")) {
        let figures = format!(
            "o1 on one CPU with {MANY} clients and more: the longest start took {}, and {} requests failed (source: minutes, \
             and errors)",
            start_time(start),
            si(errors)
        );
        claims.add(start > PROMPT && errors > 0.0, figures);
    }
    if let Some((start, errors)) = up.start(report, BASELINE, MANY).zip(up.errors(report, BASELINE)) {
        let (start_told, errors_told) = (start_time(start), si(errors));
        let figures = format!(
            "{BASELINE} on one CPU with {MANY} clients and more: the longest start took {start_told}, and {errors_told} requests \
             failed (source, default scheduler: within 1 s, and none)"
        );
        claims.add(start <= PROMPT && errors == 0.0, figures);
    }
    let mut findings = claims.findings();
    findings.extend(others(report, policies));
    findings
}

/// A sentence for each policy that the source does not have.
fn others(report: &Report, policies: &[&str]) -> Vec<String> {
    let others = policies.iter().filter(|policy| **policy != BASELINE && **policy != "o1");
    let sentence = |policy: &&str| {
        let against =
            |row: &Row| Some(format!("{} times host's peak on {}", ratio(row.to_host(report, policy)?), row.name));
        let peaks: Vec<String> = ROWS.iter().filter_map(against).collect();
        let start = ROWS.iter().filter_map(|row| row.start(report, policy, 0)).reduce(f64::max)?;
        let errors: f64 = ROWS.iter().filter_map(|row| row.errors(report, policy)).sum();
        let peaks = if peaks.is_empty() { String::new() } else { format!("{}; ", peaks.join(", ")) };
        let (start, errors) = (start_time(start), si(errors));
        Some(format!("{policy}: {peaks}the longest start took {start}, and {errors} requests failed."))
    };
    others.filter_map(sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use stile_results::model::{Params, RunContext, Sample};

    fn sample(policy: &str, setup: &[(&str, &str)], clients: u64, values: [f64; 3]) -> Sample {
        let params = setup.iter().fold(Params::default().with("clients", clients), |params, (k, v)| params.with(k, *v));
        let metrics = [Metric::Throughput, Metric::ClientErrors, Metric::StartLatencyMax];
        let values = metrics.into_iter().zip(values).collect();
        Sample { suite: Suite::Netbench, policy: policy.to_owned(), params, round: 0, values, detail: Value::Null }
    }

    fn report(samples: &[Sample]) -> Report {
        Report::from_samples(samples, RunContext::default())
    }

    fn made_of(report: &Report) -> Option<SourceTable> {
        table(report, "a source")
    }

    #[test]
    fn peaks_errors_and_starts_stand_beside_the_sources() {
        let up = [("machine", "up")];
        let samples = [
            sample("host", &up, 4, [500.0, 0.0, 900.0]),
            sample("host", &up, 24, [400.0, 0.0, 2e3]),
            sample("o1", &up, 24, [600.0, 3.0, 5e6]),
        ];
        let table = made_of(&report(&samples)).unwrap();
        assert_eq!(table.header, ["", "host", "o1", "source: default", "source: O(1)"]);
        assert_eq!(table.rows[0], ["one CPU: peak, Mbit/s", "500", "600 (1.20x)", "275", "289 (1.05x)"]);
        assert_eq!(table.rows[1], ["one CPU: client errors", "0", "3", "none", "from 20 clients on"]);
        assert_eq!(table.rows[2][1..3], ["2.00 ms", "5.00 s"]);
        assert_eq!((table.rows.len(), table.findings.len()), (3, 1), "{:?}", table.findings);
        assert!(
            table.findings[0]
                .starts_with("As the source saw it: one CPU: o1's peak is 1.20 times host's (source: 1.05)")
        );
    }

    #[test]
    fn what_does_not_hold_is_said_and_another_policy_has_a_sentence_of_its_own() {
        let affinity = [("machine", "smp"), ("affinity", "on")];
        let samples = [
            sample("host", &[], 4, [500.0, 0.0, 900.0]),
            sample("host", &affinity, 4, [450.0, 0.0, 900.0]),
            sample("rsdl", &[], 4, [550.0, 0.0, 700.0]),
        ];
        let table = made_of(&report(&samples)).unwrap();
        assert_eq!(table.rows.len(), 6);
        let expected = [
            "Not as the source saw it: affinity gives host 0.90 times the peak (source: 1.24).",
            "rsdl: 1.10 times host's peak on all CPUs, no affinity; the longest start took 700 µs, and 0 requests failed.",
        ];
        assert_eq!(table.findings, expected);
    }

    #[test]
    fn a_peak_is_compared_with_that_of_the_same_round() {
        // The machine is twice as fast in round 1, and in round 2 for the policy that ran last.
        let rounds = [(0, 400.0, 440.0), (1, 800.0, 880.0), (2, 410.0, 902.0)];
        let samples: Vec<Sample> = rounds
            .iter()
            .flat_map(|&(round, host, rsdl)| {
                [("host", host), ("rsdl", rsdl)].map(|(policy, rate)| (round, policy, rate))
            })
            .flat_map(|(round, policy, rate)| [(4, rate), (8, rate - 10.0)].map(|cell| (round, policy, cell)))
            .map(|(round, policy, (clients, rate))| Sample {
                round,
                ..sample(policy, &[], clients, [rate, 0.0, 900.0])
            })
            .collect();
        let table = made_of(&report(&samples)).unwrap();
        assert_eq!(table.rows[0][1..3], ["410", "880 (1.10x)"]);
    }

    #[test]
    fn a_report_of_other_suites_has_no_such_table() {
        assert_eq!(made_of(&report(&[])), None);
    }
}
