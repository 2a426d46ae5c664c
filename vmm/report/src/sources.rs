//! The tables of the reports that suites come from, with our figures beside theirs.
//!
//! Each such suite has a module here that makes its table of a report's cells. What a table claims follows from the
//! cells: a finding is a sentence made of figures, in favour or not.

mod claims;
mod entry;
mod hackbench;
pub mod interactive;
mod netbench;
mod show;
mod volano;

pub(super) use show::{html, markdown, terminal};

use stile_results::metric::Metric;
use stile_results::model::{BASELINE, Cell, Params, Report};
use stile_results::suite::Suite;

/// A source's table, measured anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceTable {
    /// What it shows.
    pub title: String,
    /// Who reported it first, where and when.
    pub citation: &'static str,
    /// Headings of the columns; the first one is of what the rows are.
    pub header: Vec<String>,
    /// As many fields each as there are headings.
    pub rows: Vec<Vec<String>>,
    /// What agrees with the source, and what does not: a sentence each.
    pub findings: Vec<String>,
}

/// Makes the table of one suite; `None` if the report has no cells of it.
type MakeTable = fn(&Report) -> Option<SourceTable>;

/// The tables there are, in the order of a report.
const TABLES: &[MakeTable] = &[interactive::table, volano::table, hackbench::table, netbench::table, entry::table];

/// The tables that a report has cells for. Their ratios are to the host's scheduler, as the sources' are.
pub fn tables(report: &Report) -> Vec<SourceTable> {
    let report = &report.clone().with_reference(BASELINE);
    let marked = |table: SourceTable| match report.simulated {
        true => SourceTable { title: format!("simulated {}", table.title), ..table },
        false => table,
    };
    TABLES.iter().filter_map(|table| table(report)).map(marked).collect()
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

/// "0.48 times".
fn times(ratio: f64) -> String {
    format!("{} times", stile_text::ratio(ratio))
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_results::model::RunContext;

    #[test]
    fn a_report_without_cells_has_no_tables() {
        assert_eq!(tables(&Report::from_samples(&[], RunContext::default())), []);
    }
}
