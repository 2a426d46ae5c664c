//! The test `threads` of sysbench in Linux guests, in all for the same time. The figures are those that the program
//! prints.

use super::lab::PATIENCE;
use super::together;
use crate::cells::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::linux::Linux;
use crate::window::metrics::{activity, detail, shares};
use serde_json::json;
use std::time::Duration;
use stile_suites::Metric;

/// Times that an event takes a mutex, yields and releases it: the program's default.
const YIELDS: u64 = 1000;

pub(crate) fn measure(site: &Site<'_>, linux: &Linux) -> Result<Measured, CompareError> {
    let options = site.context.options;
    let time = Duration::from_secs(site.planned.window.as_secs_f64().ceil().max(1.0) as u64);
    let orders = format!(
        "gate; sysbench threads --threads={} --thread-locks={} --thread-yields={YIELDS} --time={} run; idle",
        options.number("threads"),
        options.number("locks"),
        time.as_secs()
    );
    let Some(run) = together::run(site, linux, "sysbench", &orders, PATIENCE + 10 * time)? else { return Ok(None) };
    let all = run.figures(site, "sysbench", figures)?;
    let rates: Vec<f64> = all.iter().map(|figures| figures.events / figures.seconds).collect();
    let mut values = activity(&run.window);
    values.insert(Metric::Throughput, rates.iter().sum());
    values.insert(Metric::LatencyMax, 1e3 * all.iter().map(|figures| figures.longest_ms).fold(0.0, f64::max));
    shares(&rates, &mut values);
    let mut detail = detail(&run.window);
    detail["printed"] = json!(run.printed("sysbench"));
    Ok(Measurement::only(values, detail))
}

/// What sysbench prints at its end.
#[derive(Debug, PartialEq)]
struct Figures {
    events: f64,
    seconds: f64,
    /// The longest time of an event.
    longest_ms: f64,
}

/// Reads the figures; `None` if one is missing, or nothing was done.
fn figures(printed: &[String]) -> Option<Figures> {
    let value = |key: &str| {
        let of = |line: &String| line.trim().strip_prefix(key)?.trim().trim_end_matches('s').parse::<f64>().ok();
        printed.iter().find_map(of)
    };
    let (events, seconds) = (value("total number of events:")?, value("total time:")?);
    let longest_ms = value("max:")?;
    (events > 0.0 && seconds > 0.0).then_some(Figures { events, seconds, longest_ms })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_the_summary_and_none_from_a_part_of_it() {
        let text = "General statistics:\n    total time:                          5.0012s\n    \
                    total number of events:              1240\n\nLatency (ms):\n         min:   1.25\n         \
                    max:                                   48.21\n         95th percentile:   9.1";
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(figures(&lines), Some(Figures { events: 1240.0, seconds: 5.0012, longest_ms: 48.21 }));
        assert_eq!(figures(&lines[..3]), None);
    }
}
