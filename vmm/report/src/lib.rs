//! The forms of a comparison's report, for readers and for programs.
//!
//! [`writer::write_all`] writes the report's folder and [`table::terminal`] the text for a terminal, both from the data
//! of [`stile_results`]. Nothing here runs a guest, reads the host or asks for the time.
//!
//! | module | concern |
//! |---|---|
//! | [`view`] | cells arranged as rows and columns |
//! | [`mod@format`] | values of metrics for readers |
//! | [`sources`] | the tables of the published reports that suites repeat |
//! | [`summary`] | the report in a few sentences |
//! | [`table`] | terminal and Markdown |
//! | [`facts`] | host facts as rows |
//! | [`detail`] | what samples hold besides their metrics |
//! | [`plot`], [`figures`], [`html`] | the page |
//! | [`writer`] | files |
//! | [`baseline`], [`junit`] | comparison with an earlier report, for build servers |
//! | [`check`] | whether a file is a valid report |

pub mod baseline;
pub mod check;
pub mod detail;
pub mod facts;
pub mod figures;
pub mod format;
pub mod html;
pub mod junit;
pub mod place;
pub mod plot;
pub mod sources;
pub mod summary;
pub mod table;
pub mod view;
pub mod writer;

pub use check::{CheckError, check_report};
pub use writer::{WriteError, Written, write_all};
