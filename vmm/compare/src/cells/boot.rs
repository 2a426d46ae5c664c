//! A cell of boot: VMs that are started at once, batch after batch, for as long as the window lasts.
//!
//! Each VM of a batch is started by a thread of its own, all at the same moment. Three times matter: before
//! KVM_CREATE_VM, the first doorbell of the first vCPU, and the moment when all vCPUs have run and the workload is set
//! up. A batch is ready when all its VMs are. Then its memory is read, and its VMs end.

use super::at_once::at_once;
use super::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::window::Reading;
use crate::window::metrics::{LATENCY, Quantile, quantiles_of};
use crate::workload::spec;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use stile_host::memory;
use stile_machine::unikernel::{Spec, Vm};
use stile_sched::time::monotonic;
use stile_sched::{Nanos, Time};
use stile_suites::{Metric, Setup, VmShape};

/// A batch that is not ready after this long ends the run: a hundred VMs take a fraction of a second.
const LIMIT: Duration = Duration::from_secs(60);
/// The VMs of a batch idle for this time once they are ready, so that their accounts can be audited.
const IDLE: Duration = Duration::from_millis(20);
/// Number of VMs if the setup does not give it.
const USUAL: VmShape = VmShape { vcpus: 1, mib: 8 };

/// The quantiles of the times until VMs run.
const STARTS: &[Quantile] = &[(Metric::StartP50, 0.5), (Metric::StartP99, 0.99), (Metric::StartLatencyMax, 1.0)];

/// The result of a batch.
struct Batch {
    /// From asking for each VM until its code ran (units: ns).
    starts: Vec<u64>,
    /// From asking for each VM until it was ready (units: ns).
    readies: Vec<u64>,
    /// From asking for all VMs until all were ready.
    took: Nanos,
    /// Resident memory of the process for each VM (units: KiB); `None` if the host does not report it.
    kib: Option<f64>,
}

pub(crate) fn measure(site: &Site<'_>) -> Result<Measured, CompareError> {
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
    values.extend(quantiles_of(batches.iter().flat_map(|batch| batch.starts.iter().copied()), STARTS));
    values.extend(quantiles_of(batches.iter().flat_map(|batch| batch.readies.iter().copied()), LATENCY));
    // The process keeps part of the memory that a batch frees, so later batches seem to take less.
    let kib = batches.iter().filter_map(|batch| batch.kib).reduce(f64::max);
    values.extend(kib.map(|kib| (Metric::MemoryPerVm, kib)));
    values
}

/// Runs one batch; `None` if the user ended the run.
fn batch(site: &Site<'_>) -> Result<Option<Batch>, CompareError> {
    let before = memory::resident();
    let vms = ask_for(site)?;
    let all: Vec<&Vm> = vms.iter().map(|(_, vm)| vm).collect();
    if !site.all_ready(&all, LIMIT)? {
        return Ok(None);
    }
    let grown = memory::resident().zip(before).map(|(after, before)| after.saturating_sub(before) as f64);
    let kib = grown.map(|bytes| bytes / 1024.0 / vms.len() as f64);
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

/// Starts all VMs at the same moment. Returns each with the time at which it was asked for.
fn ask_for(site: &Site<'_>) -> Result<Vec<(Time, Vm)>, CompareError> {
    let size = site.planned.case.size as usize;
    let VmShape { vcpus, mib } = match site.planned.case.setup {
        Setup::Each(shape) => shape,
        Setup::Usual | Setup::On(_) | Setup::Affinity | Setup::Bare(_) | Setup::Locks(_) | Setup::Load(_) => USUAL,
    };
    at_once(size, |n| {
        let name = format!("vm-{n}");
        let spec = Spec { vcpus, ..spec("idle", &name, u64::from(mib) << 20, "") };
        let asked = monotonic();
        let vm = site.create(&spec, None)?;
        vm.start();
        Ok((asked, vm))
    })
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
