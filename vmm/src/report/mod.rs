//! What `compare` leaves behind: the data model of a comparison, its statistics, and its forms for programs and
//! readers.
//!
//! The runner fills [`Sample`]s, [`Report::from_samples`] makes the cells, [`writer::write_all`] and
//! [`table::terminal`] show them. Nothing here runs a guest, reads the host or asks for the time: a report follows
//! from its samples alone.
//!
//! | module | concern |
//! |---|---|
//! | [`model`] | samples and reports as data |
//! | [`stats`] | medians, intervals, paired ratios, fairness |
//! | [`aggregate`] | from samples to cells |
//! | [`verdict`] | better or worse, and how surely |
//! | [`view`] | cells arranged as rows and columns |
//! | [`rating`] | what latencies and missed deadlines feel like |
//! | [`mod@format`] | numbers for readers |
//! | [`sources`] | the tables of the reports that the suites come from |
//! | [`summary`] | the report in a few sentences |
//! | [`table`] | terminal and Markdown |
//! | [`facts`] | host facts as rows |
//! | [`detail`], [`moment`] | what samples tell besides their metrics |
//! | [`plot`], [`figures`], [`html`] | the page |
//! | [`raw`], [`journal`], [`writer`] | files |
//! | [`baseline`], [`junit`] | against an earlier report, for build servers |
//! | [`check`] | is a file a valid report? |

pub mod aggregate;
pub mod baseline;
pub mod check;
pub mod detail;
pub mod facts;
pub mod figures;
pub mod format;
pub mod html;
pub mod journal;
pub mod junit;
pub mod model;
pub mod moment;
pub mod plot;
pub mod rating;
pub mod raw;
pub mod sources;
pub mod stats;
pub mod summary;
pub mod table;
pub mod verdict;
pub mod view;
pub mod writer;

pub use aggregate::distinct_labels;
pub use check::{CheckError, check_report};
pub use model::{BASELINE, Cell, Params, Report, RunContext, Sample};
pub use writer::{WriteError, Written, write_all};
