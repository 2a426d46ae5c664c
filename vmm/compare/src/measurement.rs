//! The result of a cell.

use serde_json::Value;
use std::collections::BTreeMap;
use stile_results::model::Params;
use stile_suites::Metric;

/// The result of a cell: one sample, or several with parameters of their own; `None` if the user ended it.
pub(super) type Measured = Option<Vec<Measurement>>;

/// One sample of a cell.
#[derive(Debug)]
pub(super) struct Measurement {
    /// Parameters besides the cell's.
    pub(super) params: Params,
    pub(super) values: BTreeMap<Metric, f64>,
    pub(super) detail: Value,
}

impl Measurement {
    /// The only sample of its cell.
    pub(super) fn only(values: BTreeMap<Metric, f64>, detail: Value) -> Measured {
        Some(vec![Self { params: Params::default(), values, detail }])
    }
}
