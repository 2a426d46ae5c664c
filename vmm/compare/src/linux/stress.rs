//! stress-ng in Linux guests: each runs one stressor, with an instance on each vCPU, for the same time. The figures are
//! those that the program prints.

use super::lab::{PATIENCE, shape};
use super::together;
use crate::cells::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::linux::Linux;
use crate::window::metrics::{activity, detail, shares};
use serde_json::json;
use std::time::Duration;
use stile_suites::Metric;

/// The stressors, in the order of the suite's parameter.
const STRESSORS: [&str; 3] = ["futex", "mutex", "switch"];

pub(crate) fn measure(site: &Site<'_>, linux: &Linux) -> Result<Measured, CompareError> {
    let number = usize::try_from(site.context.options.number("stressor")).unwrap_or(usize::MAX);
    let stressor = STRESSORS.get(number).expect("the parameter's range is the table's");
    let time = Duration::from_secs(site.planned.window.as_secs_f64().ceil().max(1.0) as u64);
    let orders = format!(
        "gate; stress-ng --{stressor} {} --timeout {} --temp-path /tmp --metrics-brief; idle",
        shape(site.planned.case).vcpus,
        time.as_secs()
    );
    let Some(run) = together::run(site, linux, "stress-ng", &orders, PATIENCE + 10 * time)? else { return Ok(None) };
    let rates = run.figures(site, "stress-ng", |printed| printed.iter().find_map(|line| rate(line, stressor)))?;
    let mut values = activity(&run.window);
    values.insert(Metric::Throughput, rates.iter().sum());
    shares(&rates, &mut values);
    let mut detail = detail(&run.window);
    detail["printed"] = json!(run.printed("stress-ng"));
    Ok(Measurement::only(values, detail))
}

/// The operations a second of real time in a line such as
/// `stress-ng: info:  [86] futex  42150  5.00  1.31  8.55  8429.02  4275.21`; `None` for other lines.
fn rate(line: &str, stressor: &str) -> Option<f64> {
    let (_, row) = line.split_once("] ")?;
    match *row.split_whitespace().collect::<Vec<_>>() {
        [name, _ops, _real, _user, _system, rate, ..] if name == stressor => rate.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_stressor_in_real_time() {
        let line =
            "stress-ng: info:  [86] futex            42150      5.00      1.31      8.55      8429.02        4275.21";
        assert_eq!(rate(line, "futex"), Some(8429.02));
        assert_eq!(rate(line, "mutex"), None);
        for other in ["stress-ng: info:  [86] stressor bogo ops real time usr time sys time bogo ops/s", "", "futex"] {
            assert_eq!(rate(other, "futex"), None, "{other}");
        }
    }
}
