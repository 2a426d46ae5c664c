//! cyclictest in one Linux guest, with a thread for each vCPU, while all vCPUs of the other guests compute. The delay
//! of a wake has a part of the guest and a part of the scheduler. Policies differ by the latter.
//!
//! The program runs for a fixed time and not for a fixed number of wakes: it leaves out wakes that it is late for, so
//! the number within the time tells how many it missed. The window is that time. The program's writing of its figures
//! comes after it.

use super::lab::{Lab, PATIENCE};
use crate::cells::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::linux::Linux;
use crate::window::metrics::{LATENCY, activity, detail};
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use stile_results::stats::percentile;
use stile_suites::Metric;

/// Between two wakes of a thread, as in the suite `probe` (unit: us).
const INTERVAL_US: u64 = 5000;
/// Later wakes count as late as the latest one of their thread (unit: us): the program writes a line for each
/// microsecond up to here, which takes seconds on an emulated machine.
const MOST_US: u64 = 50_000;
/// The file in the guest to which the program writes its figures.
const FIGURES: &str = "/tmp/figures.json";

pub(crate) fn measure(site: &Site<'_>, linux: &Linux) -> Result<Measured, CompareError> {
    let vms = site.planned.case.size;
    let lab = Lab::new(site, linux, vms);
    let vcpus = lab.shape.vcpus;
    // Whole seconds, as the program takes them.
    let time = Duration::from_secs(site.planned.window.as_secs_f64().ceil().max(1.0) as u64);
    let wakes = format!(
        "gate; cyclictest -q -m -p 80 -t {vcpus} -a -i {INTERVAL_US} -d 0 -D {} -h {MOST_US} \
         --histfile=/dev/null --json={FIGURES}; cat {FIGURES}; idle",
        time.as_secs()
    );
    // They begin when all have booted: beside them, booting takes as long as their number makes it.
    let computes = format!("gate; {}idle", "busybox md5sum /dev/zero &; ".repeat(vcpus as usize));
    let mut guests = vec![lab.guest("cyclictest", &wakes, None)?];
    for n in 1..vms {
        guests.push(lab.guest(&format!("hog-{n}"), &computes, None)?);
    }
    if !lab.gather(&guests)? {
        return Ok(None);
    }
    guests[1..].iter().try_for_each(|guest| lab.open(guest))?;
    if !lab.until(&guests[1..], PATIENCE, |heard| heard.has_begun("idle"), "did not begin to compute")? {
        return Ok(None);
    }
    lab.open(&guests[0])?;
    if !lab.until(&guests[..1], PATIENCE, |heard| heard.has_begun("cyclictest"), "did not begin")? {
        return Ok(None);
    }
    let before = lab.read(&guests);
    if !site.sleep(time) {
        return Ok(None);
    }
    let window = lab.window(&guests, &before)?;
    if !lab.until(&guests[..1], PATIENCE, |heard| heard.ended("cyclictest").is_some(), "was not done")? {
        return Ok(None);
    }
    if !lab.until(&guests[..1], PATIENCE, |heard| heard.ended("cat").is_some(), "did not tell its figures")? {
        return Ok(None);
    }
    guests.iter().try_for_each(|guest| lab.still_runs(guest))?;
    let text = guests[0].heard(|heard| heard.output("cat").join("\n"));
    let figures: Figures = serde_json::from_str(&text)
        .map_err(|error| lab.broken(&guests[0].vm, format!("tells figures that make no sense: {error}")))?;
    let mut values = activity(&window);
    values.insert(Metric::Throughput, figures.wakes() as f64 / time.as_secs_f64());
    values.extend(figures.latencies());
    let mut detail = detail(&window);
    detail["late_us"] = json!(figures.late());
    Ok(Measurement::only(values, detail))
}

/// The figures of cyclictest that are used.
#[derive(Debug, Deserialize)]
struct Figures {
    thread: BTreeMap<String, Thread>,
}

#[derive(Debug, Deserialize)]
struct Thread {
    /// Number of wakes by their delay in microseconds, a decimal number.
    histogram: BTreeMap<String, u64>,
    cycles: u64,
    /// The longest delay (unit: us).
    max: u64,
}

impl Figures {
    fn wakes(&self) -> u64 {
        self.thread.values().map(|thread| thread.cycles).sum()
    }

    /// Number of wakes by delay (unit: us) over all threads, in order. Those beyond the histogram count as late as the
    /// latest.
    fn late(&self) -> Vec<(u64, u64)> {
        let mut late = BTreeMap::new();
        for thread in self.thread.values() {
            let known = thread.histogram.iter().filter_map(|(us, count)| Some((us.parse::<u64>().ok()?, *count)));
            let known: Vec<(u64, u64)> = known.collect();
            let beyond = thread.cycles.saturating_sub(known.iter().map(|(_, count)| count).sum());
            for (us, count) in known.into_iter().chain([(thread.max, beyond)]).filter(|(_, count)| *count > 0) {
                *late.entry(us).or_insert(0) += count;
            }
        }
        late.into_iter().collect()
    }

    fn latencies(&self) -> Vec<(Metric, f64)> {
        let late = self.late();
        LATENCY.iter().filter_map(|&(metric, part)| Some((metric, percentile(&late, part)? as f64))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_count_together_and_wakes_beyond_the_histogram_as_the_latest() {
        let text = r#"{"file_version": 1, "num_threads": 2, "thread": {
            "0": {"histogram": {"9": 1, "70": 2}, "cycles": 3, "min": 9, "max": 70, "avg": 49.6, "cpu": 0, "node": 0},
            "1": {"histogram": {"70": 1}, "cycles": 2, "min": 70, "max": 5000, "avg": 9.0, "cpu": 1, "node": 0}}}"#;
        let figures: Figures = serde_json::from_str(text).unwrap();
        assert_eq!(figures.late(), [(9, 1), (70, 3), (5000, 1)]);
        assert_eq!(figures.wakes(), 5);
        assert_eq!(
            figures.latencies(),
            [
                (Metric::LatencyP50, 70.0),
                (Metric::LatencyP99, 5000.0),
                (Metric::LatencyP999, 5000.0),
                (Metric::LatencyMax, 5000.0)
            ]
        );
    }
}
