//! The reports that suites come from: each one's own table, with our figures beside its.
//!
//! A table is made of a [`Report`] alone, and so are its findings: what a sentence says follows from the figures.

pub mod hackbench;
pub mod volano;

use super::format;
use super::metric::Metric;
use super::model::{Cell, Params, Report};
use super::suite::Suite;

/// A source's table with our figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceTable {
    /// What it is about.
    pub title: String,
    /// Where the source's figures stand.
    pub citation: &'static str,
    /// Names of the columns.
    pub header: Vec<String>,
    /// As many cells each as the header has.
    pub rows: Vec<Vec<String>>,
    /// What agrees with the source, and what does not.
    pub findings: Vec<String>,
}

/// The parameters that a suite was run with, in the report's order.
fn params_of(report: &Report, suite: Suite) -> Vec<&Params> {
    let mut found: Vec<&Params> = Vec::new();
    for cell in report.cells.iter().filter(|cell| cell.suite == suite) {
        if !found.contains(&&cell.params) {
            found.push(&cell.params);
        }
    }
    found
}

/// One cell of a suite.
fn cell<'a>(report: &'a Report, suite: Suite, params: &Params, policy: &str, metric: Metric) -> Option<&'a Cell> {
    let is_it = |c: &&Cell| c.suite == suite && c.params == *params && c.policy == policy && c.metric == metric;
    report.cells.iter().find(is_it)
}

/// What was not measured.
fn none() -> String {
    "–".to_owned()
}

/// One sentence of what agrees with the source and one of what does not, from claims that do or do not; none where there
/// is nothing to say.
fn findings(claims: &[(bool, String)]) -> Vec<String> {
    let of = |agrees: bool| claims.iter().filter(move |(a, _)| *a == agrees).map(|(_, text)| text.as_str());
    let sentence = |agrees: bool, begins: &str, otherwise: &str| {
        let texts: Vec<&str> = of(agrees).collect();
        if texts.is_empty() { otherwise.to_owned() } else { format!("{begins}: {}.", texts.join("; ")) }
    };
    if claims.is_empty() {
        return Vec::new();
    }
    vec![
        sentence(true, "As in the source", "Nothing here agrees with the source."),
        sentence(false, "Not as in the source", "Nothing here contradicts the source."),
    ]
}

/// "0.48 times".
fn times(ratio: f64) -> String {
    format!("{} times", format::ratio(ratio))
}
