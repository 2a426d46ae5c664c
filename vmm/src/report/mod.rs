//! The report of a comparison: its data model, its statistics, and its forms for programs and readers.
//!
//! The runner fills [`Sample`]s, [`Report::from_samples`] computes the cells, [`writer::write_all`] and
//! [`table::terminal`] show them. Nothing here runs a guest, reads the host or asks for the time: the same samples give the
//! same report.
//!
//! | module | concern |
//! |---|---|
//! | [`suite`], [`metric`] | names, units and directions of what is run and measured |
//! | [`model`] | samples and reports as data |
//! | [`stats`] | medians, intervals, paired ratios, fairness |
//! | [`aggregate`] | computes cells from samples |
//! | [`reference`] | the policy that ratios refer to |
//! | [`disturbed`] | counts of runs that the host disturbed |
//! | [`verdict`] | better or worse, and how surely |
//! | [`view`] | cells arranged as rows and columns |
//! | [`rating`] | what latencies and missed deadlines feel like |
//! | [`mod@format`] | numbers for readers |
//! | [`sources`] | the tables of the reports that the suites come from |
//! | [`summary`] | the report in a few sentences |
//! | [`table`] | terminal and Markdown |
//! | [`facts`] | host facts as rows |
//! | [`detail`], [`moment`] | what samples hold besides metrics |
//! | [`plot`], [`figures`], [`html`] | the page, and the figure of a headline |
//! | [`raw`], [`journal`], [`writer`] | files |
//! | [`place`] | the folder of a report |
//! | [`baseline`], [`junit`] | comparison with an earlier report, for build servers |
//! | [`check`] | is a file a valid report? |

pub mod aggregate;
pub mod baseline;
pub mod check;
pub mod detail;
pub mod disturbed;
pub mod facts;
pub mod figures;
pub mod format;
pub mod html;
pub mod journal;
pub mod junit;
pub mod metric;
pub mod model;
pub mod moment;
pub mod place;
pub mod plot;
pub mod rating;
pub mod raw;
pub mod reference;
pub mod sources;
pub mod stats;
pub mod suite;
pub mod summary;
pub mod table;
pub mod verdict;
pub mod view;
pub mod writer;

pub use aggregate::distinct_labels;
pub use check::{CheckError, check_report};
pub use metric::{Better, Metric};
pub use model::{BASELINE, Cell, Params, Report, RunContext, Sample};
pub use suite::{Counted, Suite};
pub use writer::{WriteError, Written, write_all};
