//! The reports that the suites come from: each one's table with our figures beside its own, and what agrees.
//!
//! A suite's table follows from a report's cells alone. What stands in the sources is in the modules, one for each.

pub mod interactive;

/// A source's table with a report's figures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceTable {
    /// What the source asked.
    pub title: String,
    /// The source.
    pub citation: &'static str,
    /// Names of the columns.
    pub header: Vec<String>,
    /// A row has as many cells as the header.
    pub rows: Vec<Vec<String>>,
    /// What agrees and what does not, in sentences.
    pub findings: Vec<String>,
}
