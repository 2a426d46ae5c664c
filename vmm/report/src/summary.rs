//! The report in a few sentences, made from its cells alone.
//!
//! Sentences count and quote; they never claim more than a table's signs do. What is neither better nor worse is open.

use super::view;
use stile_results::aggregate::headline_ratios;
use stile_results::metric::Metric;
use stile_results::model::{BASELINE, Cell, Report};
use stile_results::stats::{Interval, MIN_FOR_INTERVAL, MIN_FOR_VERDICT, miss};
use stile_results::suite::Suite;
use stile_results::verdict::Verdict;

/// A report in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// What was measured and what to bear in mind.
    pub opening: Vec<String>,
    /// What came of it: a sentence per policy against the baseline, then failures.
    pub findings: Vec<String>,
}

/// Puts a report into words.
pub fn summarize(report: &Report) -> Summary {
    let mut opening = vec![scope(report)];
    if report.simulated {
        opening.push("All figures are simulated: no guest ran, and the host's scheduler is a model of it.".to_owned());
    }
    if report.interrupted && !report.cells.is_empty() {
        opening.push("The run was interrupted; this is what had been measured by then.".to_owned());
    }
    let policies = view::policies(report);
    if !policies.is_empty() && !policies.contains(&BASELINE) {
        opening.push(format!("`{BASELINE}` was not among the policies, so there are no ratios."));
    }
    if (report.rounds as usize) < MIN_FOR_VERDICT && policies.len() > 1 {
        let rounds = report.rounds as usize;
        let none = if rounds < MIN_FOR_INTERVAL { "there are no intervals, and " } else { "" };
        opening.push(format!(
            "With {} {none}a difference is an indication only; signs count from {MIN_FOR_VERDICT} rounds on.",
            stile_text::count(rounds, "round"),
        ));
    }
    let others = policies.iter().filter(|policy| **policy != BASELINE);
    let findings =
        others.filter_map(|policy| against_itself(report, policy).or_else(|| against_baseline(report, policy)));
    Summary { opening, findings: findings.chain(failures(report, Metric::ClientErrors, &policies)).collect() }
}

fn scope(report: &Report) -> String {
    if report.cells.is_empty() {
        let why = if report.interrupted { "The run was interrupted before anything" } else { "Nothing" };
        return format!("{why} was measured.");
    }
    let suites: Vec<&str> = view::suites(report).into_iter().map(Suite::name).collect();
    let rounds = stile_text::count(report.rounds as usize, "round");
    format!(
        "{rounds} of {}, interleaved under {}.",
        stile_text::list(&suites),
        stile_text::list(&view::policies(report))
    )
}

/// The baseline a second time: "host#2 is host again: of 12 headline ratios 11 include 1 in their intervals, where with so
/// many rounds about one in 16 misses it by chance. ...". None for another policy, and without intervals.
fn against_itself(report: &Report, policy: &str) -> Option<String> {
    let again = policy.strip_prefix(BASELINE)?.strip_prefix('#')?;
    again.parse::<u32>().ok()?;
    let cells = headline_ratios(report).filter(|cell| cell.policy == policy);
    let of = |cell: &Cell| Some((cell.ratio_to_host?, cell.ratio_ci95?, miss(cell.samples.len())));
    let found: Vec<(f64, Interval, f64)> = cells.filter_map(of).collect();
    let including = found.iter().filter(|(_, interval, _)| interval.lo <= 1.0 && 1.0 <= interval.hi).count();
    let ratios = || found.iter().map(|(ratio, ..)| *ratio);
    let (lo, hi) = (ratios().reduce(f64::min)?, ratios().reduce(f64::max)?);
    // What equal figures give: twice as many and one more would be too many to believe in chance alone.
    let expected: f64 = found.iter().map(|(.., miss)| miss).sum();
    let missed = found.len() - including;
    let means = if missed as f64 > 2.0 * expected + 1.0 {
        "That is more than chance explains: something differs between first and second, and no sign of this machine is \
         to be trusted until it is found"
    } else {
        "That is what chance explains: signs mean what they say, and differences within this range are none"
    };
    Some(format!(
        "{policy} is {BASELINE} again: of {} {including} include 1 in their intervals ({} to {}), where with so many \
         rounds about one in {:.0} misses it by chance. {means}.",
        stile_text::count(found.len(), "headline ratio"),
        stile_text::ratio(lo),
        stile_text::ratio(hi),
        found.len() as f64 / expected,
    ))
}

/// "rsdl against host: throughput better in 5, worse in 1 of 7 settings (0.94 to 4.40 times); p99 latency better in
/// ...".
fn against_baseline(report: &Report, policy: &str) -> Option<String> {
    let metrics = [Metric::Throughput, Metric::LatencyP99];
    let tallies: Vec<String> = metrics.into_iter().filter_map(|metric| tally(report, policy, metric)).collect();
    (!tallies.is_empty()).then(|| format!("{policy} against {BASELINE}: {}.", tallies.join("; ")))
}

fn tally(report: &Report, policy: &str, metric: Metric) -> Option<String> {
    let cells: Vec<&Cell> = report.cells.iter().filter(|cell| cell.policy == policy && cell.metric == metric).collect();
    let ratios: Vec<f64> = cells.iter().filter_map(|cell| cell.ratio_to_host).collect();
    let (lo, hi) = (ratios.iter().copied().reduce(f64::min)?, ratios.iter().copied().reduce(f64::max)?);
    let going = |wanted: bool| {
        let goes = |cell: &&&Cell| matches!(cell.verdict(), Verdict::Differs { better, .. } if better == wanted);
        cells.iter().filter(goes).count()
    };
    let (lo, hi) = (stile_text::ratio(lo), stile_text::ratio(hi));
    let range = if lo == hi { format!("{lo} times") } else { format!("{lo} to {hi} times") };
    let (label, settings) = (metric.label(), stile_text::count(ratios.len(), "setting"));
    if cells.iter().all(|cell| cell.ratio_ci95.is_none()) {
        // Without intervals "better in 0" would read as a result.
        return Some(format!("{label} {range} in {settings}"));
    }
    Some(format!("{label} better in {}, worse in {} of {settings} ({range})", going(true), going(false)))
}

/// "Client errors in all: host 0, rsdl 3." None if the metric was not measured.
fn failures(report: &Report, metric: Metric, policies: &[&str]) -> Option<String> {
    let total = |policy: &&str| -> Option<String> {
        let cells = report.cells.iter().filter(|cell| cell.policy == *policy && cell.metric == metric);
        let sums: Vec<f64> = cells.map(|cell| cell.samples.iter().sum()).collect();
        (!sums.is_empty()).then(|| format!("{policy} {}", stile_text::si(sums.iter().sum())))
    };
    let totals: Vec<String> = policies.iter().filter_map(total).collect();
    let mut name = metric.label().to_owned();
    name[..1].make_ascii_uppercase();
    (!totals.is_empty()).then(|| format!("{name} in all: {}.", totals.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_results::model::{RunContext, Sample};
    use stile_results::testing::ticket;

    fn text(samples: &[Sample], interrupted: bool) -> String {
        let report = Report::from_samples(samples, RunContext { interrupted, ..RunContext::default() });
        let Summary { opening, findings } = summarize(&report);
        [opening, findings].concat().join(" ")
    }

    #[test]
    fn an_empty_interrupted_report_says_so_and_claims_nothing() {
        assert_eq!(text(&[], true), "The run was interrupted before anything was measured.");
    }

    #[test]
    fn a_gain_is_counted_and_quoted() {
        let host = ticket("host", Metric::Throughput, &[1.0; 5]);
        let text = text(&[host, ticket("rsdl", Metric::Throughput, &[4.4; 5])].concat(), false);
        let expected = "5 rounds of ticket, interleaved under host and rsdl. rsdl against host: \
                        throughput better in 1, worse in 0 of 1 setting (4.40 times).";
        assert_eq!(text, expected);
    }

    fn twice(second: &[f64]) -> String {
        let host = ticket("host", Metric::Throughput, &[100.0; 5]);
        let again = [Metric::Throughput, Metric::LatencyP99].map(|metric| ticket("host#2", metric, second));
        let host_p99 = ticket("host", Metric::LatencyP99, &[100.0; 5]);
        text(&[vec![host, host_p99], again.to_vec()].concat().concat(), false)
    }

    #[test]
    fn the_baseline_against_itself_tells_how_many_ratios_include_one() {
        let text = twice(&[98.0, 99.0, 101.0, 102.0, 103.0]);
        assert!(text.contains("of 2 headline ratios 2 include 1 in their intervals (1.01 to 1.01)"), "{text}");
        assert!(text.contains("signs mean what they say"), "{text}");
    }

    #[test]
    fn of_few_rounds_more_intervals_miss_by_chance() {
        let host = ticket("host", Metric::Throughput, &[100.0; 3]);
        let text = text(&[host, ticket("host#2", Metric::Throughput, &[101.0, 102.0, 103.0])].concat(), false);
        assert!(text.contains("of 1 headline ratio 0 include 1") && text.contains("about one in 4 misses"), "{text}");
        assert!(text.contains("That is what chance explains"), "{text}");
    }

    #[test]
    fn the_baseline_differing_from_itself_is_a_warning() {
        let text = twice(&[120.0, 121.0, 122.0, 123.0, 124.0]);
        assert!(
            text.contains("of 2 headline ratios 0 include 1") && text.contains("more than chance explains"),
            "{text}"
        );
    }

    #[test]
    fn few_rounds_are_called_an_indication() {
        let host = ticket("host", Metric::Throughput, &[1.0; 3]);
        let text = text(&[host, ticket("rsdl", Metric::Throughput, &[2.0; 3])].concat(), false);
        assert!(text.contains("With 3 rounds a difference is an indication only"), "{text}");
    }

    #[test]
    fn without_intervals_nothing_is_counted_as_better_or_worse() {
        let host = ticket("host", Metric::Throughput, &[1.0]);
        let text = text(&[host, ticket("rsdl", Metric::Throughput, &[2.0])].concat(), false);
        assert!(text.contains("rsdl against host: throughput 2.00 times in 1 setting."), "{text}");
    }

    #[test]
    fn errors_are_totalled_by_policy() {
        let host = ticket("host", Metric::ClientErrors, &[0.0; 2]);
        let text = text(&[host, ticket("rsdl", Metric::ClientErrors, &[1.0, 2.0])].concat(), false);
        assert!(text.contains("Client errors in all: host 0, rsdl 3."), "{text}");
    }

    #[test]
    fn without_the_baseline_the_lack_of_ratios_is_explained() {
        assert!(text(&ticket("rsdl", Metric::Throughput, &[2.0]), false).contains("`host` was not among the policies"));
    }
}
