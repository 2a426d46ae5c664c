//! A report as JUnit test cases for build servers: each cell is a case, which fails if it is worse than in a baseline.

use super::baseline::{self, Judgement};
use super::{format, view};
use quick_junit::{NonSuccessKind, Report as Junit, SerializeError, TestCase, TestCaseStatus, TestSuite};
use stile_results::model::{Cell, Report};

/// The report as XML; without a judgement every cell has passed.
pub fn xml(report: &Report, judgement: Option<&Judgement<'_>>) -> Result<String, SerializeError> {
    let mut junit = Junit::new("stile compare");
    let worse = judgement.map_or(&[][..], |judgement| &judgement.worse);
    for suite in view::suites(report) {
        let mut cases = TestSuite::new(suite.name());
        for cell in report.cells.iter().filter(|cell| cell.suite == suite) {
            let old = worse.iter().find(|(new, _)| std::ptr::eq(*new, cell)).map(|(_, old)| *old);
            cases.add_test_case(case(cell, &report.reference, old));
        }
        junit.add_test_suite(cases);
    }
    if report.interrupted {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
        status.set_message("the run was ended early; these are the cells that had been measured by then");
        let mut cases = TestSuite::new("run");
        cases.add_test_case(TestCase::new("to the end", status));
        junit.add_test_suite(cases);
    }
    junit.to_string()
}

fn case(cell: &Cell, reference: &str, old: Option<&Cell>) -> TestCase {
    let status = match old {
        Some(old) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(baseline::sentence(cell, old).trim());
            status
        }
        None => TestCaseStatus::success(),
    };
    let params: Vec<String> = cell.params.iter().map(|(name, value)| format!("{name} {value}")).collect();
    let mut case = TestCase::new(format!("{} {}", params.join(" "), cell.metric.name()), status);
    case.set_classname(format!("{}.{}", cell.suite, cell.policy));
    let value = |number: f64| format::value_with_unit(cell.metric, cell.suite, number);
    let mut out = value(cell.median);
    if let Some(interval) = cell.ci95 {
        let [lo, hi] = [interval.lo, interval.hi].map(|bound| format::value(cell.metric, cell.suite, bound));
        out += &format!(", 95 % interval {lo} to {hi}");
    }
    if let Some(ratio) = cell.ratio.filter(|_| !cell.is_of(reference)) {
        out += &format!(", ratio to {reference} {}", stile_text::ratio(ratio));
    }
    case.set_system_out(out);
    case
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_results::model::RunContext;
    use stile_results::testing::ticket;
    use stile_suites::Metric;

    #[test]
    fn each_cell_is_a_case_and_an_early_end_an_error() {
        let samples =
            [ticket("host", Metric::Throughput, &[1.0; 3]), ticket("<rsdl>", Metric::Jain, &[0.5; 3])].concat();
        let report = Report::from_samples(&samples, RunContext { interrupted: true, ..RunContext::default() });
        let xml = xml(&report, None).unwrap();
        assert!(xml.contains("tests=\"3\"") && xml.contains("failures=\"0\" errors=\"1\""), "{xml}");
        assert!(xml.contains("vcpus 4 throughput") && xml.contains("ticket.&lt;rsdl&gt;"), "{xml}");
    }

    #[test]
    fn a_cell_that_is_worse_fails_and_says_by_how_much() {
        let of =
            |work: f64| Report::from_samples(&ticket("rsdl", Metric::Throughput, &[work; 3]), RunContext::default());
        let (now, old) = (of(50.0), of(100.0));
        let judgement = Judgement { worse: vec![(&now.cells[0], &old.cells[0])], compared: 1, told: Vec::new() };
        let xml = xml(&now, Some(&judgement)).unwrap();
        assert!(xml.contains("failures=\"1\"") && xml.contains("0.50 times the baseline value 100 locks/s"), "{xml}");
    }
}
