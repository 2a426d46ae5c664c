//! The report in a few sentences, made from its cells alone.
//!
//! Sentences give counts and figures and claim no more than the signs of the tables: a cell is better, worse or open.

use super::view;
use stile_results::aggregate::headline_ratios;
use stile_results::model::{Cell, Report};
use stile_results::stats::{Interval, MIN_FOR_INTERVAL, MIN_FOR_VERDICT, miss};
use stile_results::verdict::Verdict;
use stile_suites::Metric;
use stile_suites::Suite;

/// A report in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Facts that make the figures doubtful; usually empty.
    pub warnings: Vec<String>,
    /// The suites that were measured, and limits of the result.
    pub opening: Vec<String>,
    /// The results: a sentence for each policy against the reference, then failures.
    pub findings: Vec<String>,
    /// Remarks on the run.
    pub notes: Vec<String>,
}

/// Puts a report into words.
pub fn summarize(report: &Report) -> Summary {
    let mut opening = vec![scope(report)];
    if report.simulated {
        opening.push("All figures are simulated: no guest ran, and the host's scheduler is a model.".to_owned());
    }
    if report.interrupted && !report.cells.is_empty() {
        opening.push("The run was interrupted; these figures had been measured until then.".to_owned());
    }
    let policies = view::policies(report);
    let reference = report.reference.as_str();
    if !policies.is_empty() && !report.has_reference() {
        opening.push(format!(
            "`{reference}` was not among the policies, so there are no ratios; `stile show FILE --reference POLICY` \
             computes them for another reference."
        ));
    }
    if (report.rounds as usize) < MIN_FOR_VERDICT && policies.len() > 1 {
        let rounds = report.rounds as usize;
        let none = if rounds < MIN_FOR_INTERVAL { "there are no intervals, and " } else { "" };
        opening.push(format!(
            "With {} {none}a difference is only an indication; it takes {MIN_FOR_VERDICT} rounds to prove one.",
            stile_text::count(rounds, "round"),
        ));
    }
    let others = policies.iter().filter(|policy| **policy != reference);
    let findings =
        others.filter_map(|policy| against_itself(report, policy).or_else(|| against_reference(report, policy)));
    let findings = findings.chain(failures(report, Metric::ClientErrors, &policies)).collect();
    let mut warnings: Vec<String> = report.disturbed.warning().into_iter().collect();
    let mut notes = Vec::new();
    let disturbances = if warnings.is_empty() { &mut notes } else { &mut warnings };
    disturbances.extend(report.disturbed.notes.iter().cloned());
    notes.splice(0..0, report.notes.iter().cloned());
    Summary { warnings, opening, findings, notes }
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

/// A policy's name without the number of a second entry: "host" of "host#2".
fn without_number(label: &str) -> &str {
    label.rsplit_once('#').filter(|(_, number)| number.parse::<u32>().is_ok()).map_or(label, |(name, _)| name)
}

/// The reference a second time: "host#2 is host again: of 12 headline ratios 11 include 1 in their intervals, ...".
/// None for another policy, and without intervals.
fn against_itself(report: &Report, policy: &str) -> Option<String> {
    let reference = report.reference.as_str();
    if without_number(policy) != without_number(reference) {
        return None;
    }
    let cells = headline_ratios(report).filter(|cell| cell.policy == policy);
    let of = |cell: &Cell| Some((cell.ratio?, cell.ratio_ci95?, miss(cell.samples.len())));
    let found: Vec<(f64, Interval, f64)> = cells.filter_map(of).collect();
    let including = found.iter().filter(|(_, interval, _)| interval.lo <= 1.0 && 1.0 <= interval.hi).count();
    let ratios = || found.iter().map(|(ratio, ..)| *ratio);
    let (lo, hi) = (ratios().reduce(f64::min)?, ratios().reduce(f64::max)?);
    // By chance this many would miss 1. More than twice as many plus one are too many to be chance.
    let expected: f64 = found.iter().map(|(.., miss)| miss).sum();
    let missed = found.len() - including;
    let means = if missed as f64 > 2.0 * expected + 1.0 {
        "More intervals miss 1 than chance explains: something differs between the two runs of one policy. Do not trust \
         any sign from this machine until the cause is known"
    } else {
        "Chance explains those that miss it. Signs can be trusted here; treat ratios within this range as equal"
    };
    Some(format!(
        "{policy} is {reference} again: of {} {including} include 1 in their intervals ({} to {}). With so many rounds \
         about one interval in {:.0} misses 1 by chance. {means}.",
        stile_text::count(found.len(), "headline ratio"),
        stile_text::ratio(lo),
        stile_text::ratio(hi),
        found.len() as f64 / expected,
    ))
}

/// "rsdl against host: throughput better in 5, worse in 1 of 7 settings (0.94 to 4.40 times); p99 latency better in
/// ...".
fn against_reference(report: &Report, policy: &str) -> Option<String> {
    let metrics = [Metric::Throughput, Metric::LatencyP99];
    let tallies: Vec<String> = metrics.into_iter().filter_map(|metric| tally(report, policy, metric)).collect();
    (!tallies.is_empty()).then(|| format!("{policy} against {}: {}.", report.reference, tallies.join("; ")))
}

fn tally(report: &Report, policy: &str, metric: Metric) -> Option<String> {
    let cells: Vec<&Cell> = report.cells.iter().filter(|cell| cell.policy == policy && cell.metric == metric).collect();
    let ratios: Vec<f64> = cells.iter().filter_map(|cell| cell.ratio).collect();
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
        let Summary { opening, findings, .. } = summarize(&report);
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
        assert!(text.contains("Signs can be trusted here"), "{text}");
    }

    #[test]
    fn of_few_rounds_more_intervals_miss_by_chance() {
        let host = ticket("host", Metric::Throughput, &[100.0; 3]);
        let text = text(&[host, ticket("host#2", Metric::Throughput, &[101.0, 102.0, 103.0])].concat(), false);
        assert!(
            text.contains("of 1 headline ratio 0 include 1") && text.contains("about one interval in 4 misses"),
            "{text}"
        );
        assert!(text.contains("Chance explains those"), "{text}");
    }

    #[test]
    fn the_baseline_differing_from_itself_is_a_warning() {
        let text = twice(&[120.0, 121.0, 122.0, 123.0, 124.0]);
        assert!(text.contains("of 2 headline ratios 0 include 1") && text.contains("than chance explains"), "{text}");
    }

    #[test]
    fn few_rounds_are_called_an_indication() {
        let host = ticket("host", Metric::Throughput, &[1.0; 3]);
        let text = text(&[host, ticket("rsdl", Metric::Throughput, &[2.0; 3])].concat(), false);
        assert!(text.contains("With 3 rounds a difference is only an indication"), "{text}");
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
