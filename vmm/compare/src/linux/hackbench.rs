//! hackbench in Linux guests: each runs the program with one group, and all begin at the same moment. The window lasts
//! from then until the last one is done.

use super::lab::{Guest, Lab, PATIENCE};
use crate::cells::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::linux::Linux;
use crate::window::metrics::{activity, detail, work};
use crate::window::{VcpuCounts, Window};
use serde_json::json;
use std::time::Duration;
use stile_sched::time::monotonic;
use stile_suites::Metric;

/// Senders of a group, and as many receivers.
const FAN: u64 = 20;
/// Messages from each sender to each receiver: about a second's work.
const LOOPS: u64 = 1000;
/// A guest that handles fewer messages is taken to hang (unit: messages/s).
const SLOWEST: u64 = 500;

pub(crate) fn measure(site: &Site<'_>, linux: &Linux) -> Result<Measured, CompareError> {
    let set = |key, default| site.context.options.setting(key).unwrap_or(default);
    let (fan, loops) = (set("fan", FAN), set("loops", LOOPS));
    let vms = site.planned.case.size;
    let messages = fan.saturating_mul(fan).saturating_mul(loops).saturating_mul(vms.into());
    let lab = Lab::new(site, linux, vms);
    let orders = format!("gate; hackbench -g 1 -f {fan} -l {loops}; idle");
    let guests = (0..vms).map(|n| lab.guest(&format!("hackbench-{n}"), &orders, None));
    let guests = guests.collect::<Result<Vec<Guest>, _>>()?;
    if !lab.gather(&guests)? {
        return Ok(None);
    }
    let (before, begun) = (lab.read(&guests), monotonic());
    guests.iter().try_for_each(|guest| lab.open(guest))?;
    let limit = PATIENCE.saturating_add(Duration::from_secs(messages / SLOWEST));
    if !lab.until(&guests, limit, |heard| heard.ended("hackbench").is_some(), "was not done")? {
        return Ok(None);
    }
    let window = lab.window(&guests, &before)?;
    let ended = guests.iter().filter_map(|guest| guest.heard(|heard| heard.ended("hackbench"))).max().unwrap_or(begun);
    let window = Window { seconds: ended.since(begun).0 as f64 / 1e9, ..window };
    let vcpus: Vec<&VcpuCounts> = window.vcpus.iter().collect();
    let mut values = activity(&window);
    values.extend(work(messages, window.seconds, &vcpus));
    values.insert(Metric::RunTime, window.seconds * 1e6);
    let mut detail = detail(&window);
    detail["printed"] =
        json!(guests.iter().map(|guest| guest.heard(|h| h.output("hackbench").to_vec())).collect::<Vec<_>>());
    Ok(Measurement::only(values, detail))
}
