//! A cell of boot: VMs that are asked for at once, batch after batch, for as long as the window lasts.
//!
//! Each VM of a batch is asked for by a thread of its own, all at the same moment. Three times matter: when it was asked for
//! (before KVM_CREATE_VM), when its first vCPU rang its first doorbell, and when all its vCPUs had run and its workload was
//! set up. A batch ends when all its VMs have come that far; then it is seen how much memory they take, and they end.

use super::cell::{Measured, Measurement};
use super::runner::CompareError;
use super::site::Site;
use super::window::Reading;
use super::{Setup, VmShape};
use crate::host::resident::resident_kib;
use crate::report::metric::Metric;
use crate::report::stats::percentile;
use crate::vm::console::Sink;
use crate::vm::{Spec, Vm};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use stile_sched::domain::Attributes;
use stile_sched::time::monotonic;
use stile_sched::{Nanos, Time};

/// A batch that is not ready after this long ends the run: a hundred VMs take a fraction of a second.
const LIMIT: Duration = Duration::from_secs(60);
/// How often a batch is looked at; VMs stamp their times themselves.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// For which the VMs of a batch idle once they are ready, to hold their accounts against.
const IDLE: Duration = Duration::from_millis(20);
/// VMs where the setup does not say.
const USUAL: VmShape = VmShape { vcpus: 1, mib: 8 };

/// What came of a batch.
struct Batch {
    /// From asking for each VM until its code ran (units: ns).
    starts: Vec<u64>,
    /// From asking for each VM until it was ready (units: ns).
    readies: Vec<u64>,
    /// From asking for all of them until all were ready.
    took: Nanos,
    /// Resident memory of the process for each VM (units: KiB); `None` where the host does not tell.
    kib: Option<f64>,
}

pub(super) fn measure(site: &Site<'_>) -> Result<Measured, CompareError> {
    let begun = Instant::now();
    let mut batches = Vec::new();
    while batches.is_empty() || begun.elapsed() < site.planned.window {
        let Some(batch) = batch(site)? else { return Ok(None) };
        batches.push(batch);
    }
    let detail = json!({
        "batches": batches.len(),
        "start_ns": batches.iter().map(|batch| &batch.starts).collect::<Vec<_>>(),
        "ready_ns": batches.iter().map(|batch| &batch.readies).collect::<Vec<_>>(),
        "kib_each": batches.iter().map(|batch| batch.kib).collect::<Vec<_>>(),
    });
    Ok(Measurement::only(values(&batches), detail))
}

fn values(batches: &[Batch]) -> BTreeMap<Metric, f64> {
    let vms: usize = batches.iter().map(|batch| batch.starts.len()).sum();
    let took = batches.iter().map(|batch| batch.took.0).sum::<u64>() as f64 / 1e9;
    let rate = vms as f64 / took;
    let mut values = BTreeMap::from([(Metric::Throughput, rate), (Metric::OpsPerS, rate)]);
    let quantiles = |times: &dyn Fn(&Batch) -> &Vec<u64>, metrics: [Metric; 3]| {
        let mut sorted: Vec<(u64, u64)> = batches.iter().flat_map(times).map(|&time| (time, 1)).collect();
        sorted.sort_unstable();
        let us = |(metric, part)| Some((metric, percentile(&sorted, part)? as f64 / 1e3));
        metrics.into_iter().zip([0.5, 0.99, 1.0]).filter_map(us).collect::<Vec<_>>()
    };
    let starts = [Metric::StartP50, Metric::StartP99, Metric::StartLatencyMax];
    values.extend(quantiles(&|batch| &batch.starts, starts));
    let readies = [Metric::LatencyP50, Metric::LatencyP99, Metric::LatencyMax];
    values.extend(quantiles(&|batch| &batch.readies, readies));
    // What a batch gives back stays with the process in part, so later ones seem to take less.
    let kib = batches.iter().filter_map(|batch| batch.kib).reduce(f64::max);
    values.extend(kib.map(|kib| (Metric::MemoryPerVm, kib)));
    values
}

/// One batch; `None` if the user ended the run.
fn batch(site: &Site<'_>) -> Result<Option<Batch>, CompareError> {
    let resident = resident_kib();
    let vms = ask_for(site)?;
    if !until_ready(site, &vms)? {
        return Ok(None);
    }
    let kib =
        resident_kib().zip(resident).map(|(after, before)| after.saturating_sub(before) as f64 / vms.len() as f64);
    let all: Vec<&Vm> = vms.iter().map(|(_, vm)| vm).collect();
    let before = Reading::take(&all, &*site.domain);
    if !site.sleep(IDLE) {
        return Ok(None);
    }
    site.audit(&before.until(&Reading::take(&all, &*site.domain)))?;
    all.iter().try_for_each(|vm| site.still_runs(vm))?;
    let since = |of: fn(&Vm) -> Option<Time>| -> Vec<u64> {
        vms.iter().filter_map(|(asked, vm)| Some(of(vm)?.since(*asked).0)).collect()
    };
    let (starts, readies) = (since(|vm| vm.state().started()), since(|vm| vm.state().ready()));
    let asked = vms.iter().map(|(asked, _)| *asked).min().unwrap_or_default();
    let last = vms.iter().filter_map(|(_, vm)| vm.state().ready()).max().unwrap_or_default();
    Ok(Some(Batch { starts, readies, took: last.since(asked), kib }))
}

/// Asks for all VMs at the same moment: each with the time at which it was asked for.
fn ask_for(site: &Site<'_>) -> Result<Vec<(Time, Vm)>, CompareError> {
    let size = site.planned.case.size as usize;
    let VmShape { vcpus, mib } = match site.planned.case.setup {
        Setup::Each(shape) => shape,
        _ => USUAL,
    };
    let at_once = Barrier::new(size);
    let ask = |n: usize| {
        let name = format!("vm-{n}");
        let spec = Spec {
            name: &name,
            image: stile_guest_images::image("idle").expect("the suites run built-in images"),
            vcpus,
            memory: u64::from(mib) << 20,
            attributes: Attributes::default(),
            cmdline: "",
            console: Sink::Terminal,
            device: None,
        };
        at_once.wait();
        let asked = monotonic();
        let vm = site.create(&spec, None)?;
        vm.start();
        Ok((asked, vm))
    };
    std::thread::scope(|scope| {
        let askers: Vec<_> = (0..size).map(|n| scope.spawn(move || ask(n))).collect();
        let join = |asker: std::thread::ScopedJoinHandle<'_, _>| {
            asker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        // All are joined, also after one that failed.
        askers.into_iter().map(join).collect::<Vec<_>>().into_iter().collect()
    })
}

/// Waits until all are ready; false if the user ended the run.
fn until_ready(site: &Site<'_>, vms: &[(Time, Vm)]) -> Result<bool, CompareError> {
    let begun = Instant::now();
    for (_, vm) in vms {
        while vm.state().ready().is_none() {
            site.still_runs(vm)?;
            if begun.elapsed() > LIMIT {
                let ready = vms.iter().filter(|(_, vm)| vm.state().ready().is_some()).count();
                return Err(site.stuck(vm, format!("was not ready, {ready} of {} were,", vms.len()), LIMIT));
            }
            if !site.sleep(LOOK_EVERY) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_over_all_vms_of_all_batches_and_memory_is_the_largest() {
        let batch = |starts: &[u64], kib| Batch {
            starts: starts.to_vec(),
            readies: starts.iter().map(|start| 2 * start).collect(),
            took: Nanos(500_000_000),
            kib,
        };
        let values = values(&[batch(&[4_000, 1_000], Some(90.0)), batch(&[3_000, 2_000], None)]);
        assert_eq!(values[&Metric::Throughput], 4.0);
        let starts = [Metric::StartP50, Metric::StartP99, Metric::StartLatencyMax].map(|metric| values[&metric]);
        assert_eq!(starts, [2.0, 4.0, 4.0]);
        assert_eq!((values[&Metric::LatencyMax], values[&Metric::MemoryPerVm]), (8.0, 90.0));
    }
}
