//! The tables of the reports that suites come from, with our figures beside theirs.
//!
//! Each such suite has a module here that makes its table of a report's cells. What a table claims follows from the
//! cells: a finding is a sentence made of figures, in favour or not.

mod claims;
mod entry;
pub mod interactive;
mod netbench;
mod show;

pub(super) use show::{html, markdown, terminal};

use super::model::Report;

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
const TABLES: &[MakeTable] = &[interactive::table, netbench::table, entry::table];

/// The tables that a report has cells for.
pub fn tables(report: &Report) -> Vec<SourceTable> {
    TABLES.iter().filter_map(|table| table(report)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::model::RunContext;

    #[test]
    fn a_report_without_cells_has_no_tables() {
        assert_eq!(tables(&Report::from_samples(&[], RunContext::default())), []);
    }
}
