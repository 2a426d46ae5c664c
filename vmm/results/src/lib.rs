//! The measurements of a comparison, as data: suites, metrics, samples, the report's cells, and their statistics.
//!
//! A runner fills [`Sample`]s, and [`Report::from_samples`] makes cells of them. Nothing here runs a guest, reads the
//! host, asks for the time or shows anything: a report follows from its samples alone.
//!
//! | module | concern |
//! |---|---|
//! | [`disturbed`], [`mod@reference`] | runs that the host disturbed; the policy that ratios refer to |
//! | [`model`] | samples and reports as data |
//! | [`stats`] | medians, intervals, paired ratios, fairness |
//! | [`aggregate`] | from samples to cells |
//! | [`verdict`] | better or worse, and how surely |
//! | [`rating`] | how latencies and missed deadlines feel to a user |
//! | [`moment`] | the vCPUs that ran during the longest wait |
//! | [`raw`], [`journal`] | the samples as files |

pub mod aggregate;
pub mod disturbed;
pub mod journal;
pub mod model;
pub mod moment;
pub mod rating;
pub mod raw;
pub mod reference;
pub mod stats;
pub mod storage;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod verdict;

pub use aggregate::distinct_labels;
pub use model::{BASELINE, Cell, Params, Report, RunContext, Sample};
