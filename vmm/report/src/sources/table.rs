//! A source's table as data, and functions that several of them need.

use stile_results::model::{Cell, Params, Report};
use stile_suites::{Metric, Suite};

/// A source's table, measured anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceTable {
    /// Its meaning.
    pub title: String,
    /// The citation of the source.
    pub citation: &'static str,
    /// Headings of the columns. The first one is that of the rows' names.
    pub header: Vec<String>,
    /// As many fields each as there are headings.
    pub rows: Vec<Vec<String>>,
    /// The findings: what agrees with the source and what does not, a sentence each.
    pub findings: Vec<String>,
}

/// The parameters that a suite was run with, in the report's order.
pub(super) fn params_of(report: &Report, suite: Suite) -> Vec<&Params> {
    let mut found: Vec<&Params> = Vec::new();
    for cell in report.cells.iter().filter(|cell| cell.suite == suite) {
        if !found.contains(&&cell.params) {
            found.push(&cell.params);
        }
    }
    found
}

/// One cell of a suite.
pub(super) fn cell<'a>(
    report: &'a Report,
    suite: Suite,
    params: &Params,
    policy: &str,
    metric: Metric,
) -> Option<&'a Cell> {
    let is_it = |c: &&Cell| c.suite == suite && c.params == *params && c.policy == policy && c.metric == metric;
    report.cells.iter().find(is_it)
}

/// The text for a missing figure.
pub(super) fn none() -> String {
    "–".to_owned()
}

/// "0.48 times".
pub(super) fn times(ratio: f64) -> String {
    format!("{} times", stile_text::ratio(ratio))
}
