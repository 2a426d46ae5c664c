//! A cell of entry: vCPUs that ring a doorbell that asks for nothing, and how evenly they do.

use super::fixed;
use super::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::window::jitter::{jitter, rates};
use crate::window::metrics::{detail, of_suite};
use crate::window::ops;
use stile_suites::Metric;

pub(crate) fn measure(site: &Site<'_>) -> Result<Measured, CompareError> {
    let vms = fixed::create(site)?;
    let pass = || rates(site.planned.window, |time| site.sleep(time), || ops(&vms));
    let Some((window, rates)) = fixed::window(site, &vms, pass)? else { return Ok(None) };
    let mut values = of_suite(site.context.options.suite, &window);
    values.extend(jitter(&rates).map(|jitter| (Metric::Jitter, jitter)));
    Ok(Measurement::only(values, detail(&window)))
}
