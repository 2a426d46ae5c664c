//! What a cell gives.

use serde_json::Value;
use std::collections::BTreeMap;
use stile_results::model::Params;
use stile_suites::Metric;

/// What a cell gave: a sample, or several that differ in parameters of their own; `None` if the user ended it.
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
    /// The only one of its cell.
    pub(super) fn only(values: BTreeMap<Metric, f64>, detail: Value) -> Measured {
        Some(vec![Self { params: Params::default(), values, detail }])
    }
}
