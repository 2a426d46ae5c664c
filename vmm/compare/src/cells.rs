//! The cells that are measured with guests: how each suite is set up, run and read.
//!
//! | module | measures |
//! |---|---|
//! | `fixed` | suites whose VMs are there from the start and only compute with each other: ticket to weights, entry |
//! | `ending` | hackbench and volano, whose work has an end |
//! | `netbench` | clients, servers and newcomers, with a folder for each step |
//! | `interactive` | probes beside a load |
//! | `partition`, `boot` | what their names say |
//! | `bare` | entry without a VM |
//!
//! `context` is what all cells of a run share, `site` where one of them is measured. Cells of Linux guests are in
//! `linux`, those without guests in `simulated`.

pub(super) mod at_once;
pub(super) mod bare;
mod boot;
pub(super) mod context;
pub(super) mod ending;
mod fixed;
pub(super) mod interactive;
pub(super) mod netbench;
mod partition;
pub(super) mod site;

use super::error::CompareError;
use super::linux;
use ending::Work;
use serde_json::Value;
use site::Site;
use std::collections::BTreeMap;
use stile_results::metric::Metric;
use stile_results::model::Params;
use stile_results::suite::Suite;

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

/// One cell of a suite that has one domain.
pub(super) fn measure(site: &Site<'_>) -> Result<Measured, CompareError> {
    let options = site.context.options;
    if let Some(guests) = &options.linux {
        return linux::measure(site, guests);
    }
    match (options.suite, Work::of(options, site.planned.case.size)) {
        (_, Some(work)) => ending::measure(site, work),
        (Suite::Interactive, _) => interactive::measure(site),
        (Suite::Partition, _) => partition::measure(site),
        (Suite::Boot, _) => boot::measure(site),
        _ => fixed::measure(site),
    }
}
