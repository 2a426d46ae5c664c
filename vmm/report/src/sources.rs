//! The tables of the published reports that suites repeat, with stile's figures beside the report's.
//!
//! Each source has a module here that makes its table of a report's cells. Findings follow from the cells alone: each
//! is a sentence made of figures, whether or not they confirm the source.

mod claims;
mod entry;
mod hackbench;
mod interactive;
mod netbench;
mod show;
mod table;
mod volano;

pub(super) use show::{html, markdown, terminal};
pub use table::SourceTable;

use stile_results::model::{BASELINE, Report};
use stile_suites::{Claims, Source, Suite};

/// The tables that a report has cells for, in the order of the sources. Ratios refer to the host's scheduler, as in the
/// sources.
pub fn tables(report: &Report) -> Vec<SourceTable> {
    let report = &report.clone().with_reference(BASELINE);
    let marked = |table: SourceTable| match report.simulated {
        true => SourceTable { title: format!("simulated {}", table.title), ..table },
        false => table,
    };
    let sources = Suite::from_reports().into_iter().filter_map(|suite| suite.descriptor().source.as_ref());
    sources.filter_map(|source| table_of(source, report)).map(marked).collect()
}

/// The table of one source; `None` if the report has no cells of its suite.
fn table_of(source: &Source, report: &Report) -> Option<SourceTable> {
    let table = match source.claims {
        Claims::Desktop => interactive::table,
        Claims::ChatRooms => volano::table,
        Claims::Locks => hackbench::table,
        Claims::FileServer => netbench::table,
        Claims::Slots => entry::table,
    };
    table(report, source.citation)
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
