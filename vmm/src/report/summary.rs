//! The report in a few sentences, made from its cells alone.
//!
//! Sentences count and quote; they never claim more than a table's signs do.

use super::metric::{Metric, Suite};
use super::model::{BASELINE, Cell, Report};
use super::stats::MIN_FOR_VERDICT;
use super::verdict::Verdict;
use super::{format, view};

/// The sentences of the summary, in order.
pub fn sentences(report: &Report) -> Vec<String> {
    let mut sentences = vec![scope(report)];
    if report.interrupted {
        sentences.push("The run was interrupted; this is what had been measured by then.".to_owned());
    }
    if report.cells.is_empty() {
        return sentences;
    }
    let policies = view::policies(report);
    if !policies.contains(&BASELINE) {
        sentences.push(format!("`{BASELINE}` was not among the policies, so there are no ratios."));
    }
    for policy in policies.iter().filter(|policy| **policy != BASELINE) {
        sentences.extend(against_baseline(report, policy, Metric::Throughput));
        sentences.extend(against_baseline(report, policy, Metric::LatencyP99));
    }
    sentences.extend(failures(report, Metric::ClientErrors, &policies));
    if (report.rounds as usize) < MIN_FOR_VERDICT && policies.len() > 1 {
        sentences.push(format!(
            "With {} a difference is an indication only; from {MIN_FOR_VERDICT} on the intervals exclude chance.",
            format::count(report.rounds as usize, "round"),
        ));
    }
    sentences
}

fn scope(report: &Report) -> String {
    if report.cells.is_empty() {
        return "Nothing was measured.".to_owned();
    }
    let suites: Vec<&str> = view::suites(report).into_iter().map(Suite::name).collect();
    let rounds = format::count(report.rounds as usize, "round");
    format!("{rounds} of {}, interleaved under {}.", format::list(&suites), format::list(&view::policies(report)))
}

/// "rsdl, throughput against host: better in 5 of 7 settings (most: ticket, 16 vCPUs, 4.40 times), worse in 1, open in 1."
fn against_baseline(report: &Report, policy: &str, metric: Metric) -> Option<String> {
    let of_metric = |cell: &&Cell| cell.policy == policy && cell.metric == metric && cell.ratio_to_host.is_some();
    let cells: Vec<&Cell> = report.cells.iter().filter(of_metric).collect();
    if cells.is_empty() {
        return None;
    }
    let going = |wanted: bool| -> Vec<&Cell> {
        let goes = |cell: &&&Cell| matches!(cell.verdict(), Verdict::Differs { better, .. } if better == wanted);
        cells.iter().filter(goes).copied().collect()
    };
    let (better, worse) = (going(true), going(false));
    let open = cells.len() - better.len() - worse.len();
    let settings = format::count(cells.len(), "setting");
    let (better, worse) = (tally("better", &better, &format!(" of {settings}")), tally("worse", &worse, ""));
    Some(format!("{policy}, {} against {BASELINE}: {better}, {worse}, open in {open}.", metric.label()))
}

/// "better in 5 of 7 settings (most: ticket, 16 vCPUs, 4.40 times)".
fn tally(word: &str, cells: &[&Cell], of: &str) -> String {
    let distance = |cell: &Cell| cell.ratio_to_host.map_or(0.0, |ratio| ratio.ln().abs());
    let most = cells.iter().max_by(|a, b| distance(a).total_cmp(&distance(b)));
    let most = most.and_then(|cell| {
        let ratio = format::ratio(cell.ratio_to_host?);
        Some(format!(" (most: {}, {}, {ratio} times)", cell.suite, setting(cell)))
    });
    format!("{word} in {}{of}{}", cells.len(), most.unwrap_or_default())
}

fn setting(cell: &Cell) -> String {
    let (size, variant) = (cell.params.size_label(), cell.params.variant());
    if variant.is_empty() || variant == size { size } else { format!("{size}, {variant}") }
}

/// "Client errors in all: host 0, rsdl 3." None if the metric was not measured.
fn failures(report: &Report, metric: Metric, policies: &[&str]) -> Option<String> {
    let total = |policy: &&str| -> Option<String> {
        let cells = report.cells.iter().filter(|cell| cell.policy == *policy && cell.metric == metric);
        let sums: Vec<f64> = cells.map(|cell| cell.samples.iter().sum()).collect();
        (!sums.is_empty()).then(|| format!("{policy} {}", format::si(sums.iter().sum())))
    };
    let totals: Vec<String> = policies.iter().filter_map(total).collect();
    let mut name = metric.label().to_owned();
    name[..1].make_ascii_uppercase();
    (!totals.is_empty()).then(|| format!("{name} in all: {}.", totals.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::aggregate::tests::ticket;
    use crate::report::model::{RunContext, Sample};

    fn text(samples: &[Sample], interrupted: bool) -> String {
        sentences(&Report::from_samples(samples, RunContext { interrupted, ..RunContext::default() })).join(" ")
    }

    #[test]
    fn an_empty_interrupted_report_says_so_and_claims_nothing() {
        let expected = "Nothing was measured. The run was interrupted; this is what had been measured by then.";
        assert_eq!(text(&[], true), expected);
    }

    #[test]
    fn a_gain_is_counted_and_quoted() {
        let host = ticket("host", Metric::Throughput, &[1.0; 5]);
        let text = text(&[host, ticket("rsdl", Metric::Throughput, &[4.4; 5])].concat(), false);
        let expected = "5 rounds of ticket, interleaved under host and rsdl. rsdl, throughput against host: \
                        better in 1 of 1 setting (most: ticket, 4 vCPUs, 4.40 times), worse in 0, open in 0.";
        assert_eq!(text, expected);
    }

    #[test]
    fn few_rounds_are_called_an_indication() {
        let host = ticket("host", Metric::Throughput, &[1.0; 3]);
        let text = text(&[host, ticket("rsdl", Metric::Throughput, &[2.0; 3])].concat(), false);
        assert!(text.contains("With 3 rounds a difference is an indication only"), "{text}");
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
