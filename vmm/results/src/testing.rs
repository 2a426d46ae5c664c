//! Samples for tests.

use crate::model::{Params, Sample};
use serde_json::Value;
use std::collections::BTreeMap;
use stile_suites::Metric;
use stile_suites::Suite;

/// Samples of one metric of `ticket` at 4 vCPUs, one per round.
pub fn ticket(policy: &str, metric: Metric, values: &[f64]) -> Vec<Sample> {
    let sample = |(round, value): (u32, &f64)| Sample {
        suite: Suite::Ticket,
        policy: policy.to_owned(),
        params: Params::default().with("vcpus", 4),
        round,
        values: BTreeMap::from([(metric, *value)]),
        detail: Value::Null,
    };
    (0..).zip(values).map(sample).collect()
}
