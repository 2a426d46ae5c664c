//! pigz in Linux guests: each compresses a file, and all begin at the same moment. The window lasts from then until the
//! last one is done.

use super::lab::PATIENCE;
use super::together;
use crate::cells::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::linux::Linux;
use crate::window::metrics::{activity, detail};
use std::time::Duration;
use stile_suites::Metric;

/// The image's only large file, which is text.
const TEXT: &str = "/usr/share/dbench/client.txt";
/// A guest that compresses less is taken to hang (unit: MiB/s).
const SLOWEST: f64 = 0.02;

pub(crate) fn measure(site: &Site<'_>, linux: &Linux) -> Result<Measured, CompareError> {
    let options = site.context.options;
    let (mib, threads, vms) = (options.number("mb"), options.number("threads"), site.planned.case.size);
    let orders =
        format!("gunzip {TEXT}.gz; truncate -s {mib}M {TEXT}; gate; pigz --keep --processes {threads} {TEXT}; idle");
    let mib = (mib * u64::from(vms)) as f64;
    let limit = PATIENCE + Duration::from_secs_f64(mib / SLOWEST);
    let Some(run) = together::run(site, linux, "pigz", &orders, limit)? else { return Ok(None) };
    let window = &run.window;
    let mut values = activity(window);
    values.insert(Metric::Throughput, mib * 1.048_576 / window.seconds);
    values.insert(Metric::RunTime, window.seconds * 1e6);
    Ok(Measurement::only(values, detail(window)))
}
