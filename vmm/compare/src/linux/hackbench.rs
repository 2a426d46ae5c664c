//! hackbench in Linux guests: each runs the program with one group, and all begin at the same moment. The window lasts
//! from then until the last one is done.

use super::lab::PATIENCE;
use super::together::{self, Together};
use crate::cells::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::linux::Linux;
use crate::window::VcpuCounts;
use crate::window::metrics::{activity, detail, work};
use serde_json::json;
use std::time::Duration;
use stile_suites::Metric;

/// A guest that handles fewer messages is taken to hang (unit: messages/s).
const SLOWEST: u64 = 500;

pub(crate) fn measure(site: &Site<'_>, linux: &Linux) -> Result<Measured, CompareError> {
    let options = site.context.options;
    let (fan, loops) = (options.number("fan"), options.number("loops"));
    let messages = fan.saturating_mul(fan).saturating_mul(loops).saturating_mul(site.planned.case.size.into());
    let orders = format!("gate; hackbench -g 1 -f {fan} -l {loops}; idle");
    let limit = PATIENCE.saturating_add(Duration::from_secs(messages / SLOWEST));
    let Some(run) = together::run(site, linux, "hackbench", &orders, limit)? else { return Ok(None) };
    let Together { window, .. } = &run;
    let vcpus: Vec<&VcpuCounts> = window.vcpus.iter().collect();
    let mut values = activity(window);
    values.extend(work(messages, window.seconds, &vcpus));
    values.insert(Metric::RunTime, window.seconds * 1e6);
    let mut detail = detail(window);
    detail["printed"] = json!(run.printed("hackbench"));
    Ok(Measurement::only(values, detail))
}
