//! Booting Linux guests: VMs that are started at once, batch after batch. Each runs until the first process of its
//! guest reports on the serial port. The peer's guests (`peer`) do the same, with the same kernel, initramfs and
//! command line.
//!
//! The accounts of a batch's vCPUs are audited over their whole life, after all have booted.
//!
//! The time includes reading the files that a guest boots. It does not include the start of stile itself: one process
//! makes all VMs.

use super::lab::{Lab, PATIENCE};
use crate::cells::at_once::at_once;
use crate::cells::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::linux::Linux;
use crate::window::Reading;
use crate::window::metrics::{LATENCY, quantiles_of};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use stile_abi::linux::{CONSOLE_PREFIX, Report};
use stile_host::memory;
use stile_machine::linux::LinuxVm;
use stile_machine::vm::console::Sink;
use stile_sched::Time;
use stile_sched::time::monotonic;
use stile_suites::Metric;
use vm_memory::{GuestMemoryBackend, GuestMemoryRegion, MemoryRegionAddress};

/// What guests that have booted do.
pub(super) const ORDERS: &str = "idle";

/// The result of a batch.
#[derive(Debug)]
pub(super) struct Batch {
    /// When each VM was asked for, and when its guest's first process reported.
    pub(super) booted: Vec<(Time, Time)>,
    /// Resident memory of the monitor without the guests' memory (unit: bytes); `None` if the host does not report it.
    pub(super) monitor: Option<u64>,
}

pub(crate) fn measure(site: &Site<'_>, linux: &Linux) -> Result<Measured, CompareError> {
    let lab = Lab::new(site, linux, site.planned.case.size);
    batches(site, || batch(&lab))
}

/// Runs batches for as long as the window lasts, at least one.
pub(super) fn batches(
    site: &Site<'_>,
    batch: impl Fn() -> Result<Option<Batch>, CompareError>,
) -> Result<Measured, CompareError> {
    let begun = Instant::now();
    let mut batches = Vec::new();
    while batches.is_empty() || begun.elapsed() < site.planned.window {
        let Some(batch) = batch()? else { return Ok(None) };
        batches.push(batch);
    }
    let times = |batch: &Batch| batch.booted.iter().map(|(asked, ready)| ready.since(*asked).0).collect::<Vec<_>>();
    let detail = json!({
        "batches": batches.len(),
        "ready_ns": batches.iter().map(times).collect::<Vec<_>>(),
        "monitor_bytes": batches.iter().map(|batch| batch.monitor).collect::<Vec<_>>(),
    });
    Ok(Measurement::only(values(&batches), detail))
}

fn values(batches: &[Batch]) -> BTreeMap<Metric, f64> {
    let all = || batches.iter().flat_map(|batch| &batch.booted);
    let took = |batch: &Batch| {
        let asked = batch.booted.iter().map(|(asked, _)| *asked).min().unwrap_or_default();
        let last = batch.booted.iter().map(|(_, ready)| *ready).max().unwrap_or_default();
        last.since(asked).0 as f64 / 1e9
    };
    let rate = all().count() as f64 / batches.iter().map(took).sum::<f64>();
    let times = quantiles_of(all().map(|(asked, ready)| ready.since(*asked).0), LATENCY);
    let each = |batch: &Batch| Some(batch.monitor? as f64 / 1024.0 / batch.booted.len() as f64);
    let monitor = batches.iter().filter_map(each).reduce(f64::max).map(|kib| (Metric::MonitorPerVm, kib));
    [(Metric::Throughput, rate), (Metric::OpsPerS, rate)].into_iter().chain(times).chain(monitor).collect()
}

/// A VM with three times: when it was asked for, when it had been made, and when its guest's first process reported.
struct Asked {
    vm: LinuxVm,
    at: Time,
    made: Time,
    booted: Arc<OnceLock<Time>>,
}

/// Runs one batch; `None` if the user ended the run.
fn batch(lab: &Lab<'_>) -> Result<Option<Batch>, CompareError> {
    let all = ask_for(lab)?;
    let begun = Instant::now();
    let all_booted = lab.site.look(|| {
        let Some(late) = all.iter().find(|asked| asked.booted.get().is_none()) else { return Ok(Some(())) };
        if let Some(outcome) = late.vm.status().outcome() {
            return Err(lab.broken(&late.vm, format!("ended while it booted: {outcome}")));
        }
        if begun.elapsed() > PATIENCE {
            return Err(lab.broken(&late.vm, format!("had not booted after {PATIENCE:?}")));
        }
        Ok(None)
    })?;
    if all_booted.is_none() {
        return Ok(None);
    }
    let guests = all.iter().map(|asked| of_guest(&asked.vm)).sum::<Option<u64>>();
    let monitor = memory::resident().zip(guests).map(|(all, guests)| all.saturating_sub(guests));
    audit(lab, &all)?;
    let booted = all.iter().filter_map(|asked| Some((asked.at, *asked.booted.get()?))).collect();
    Ok(Some(Batch { booted, monitor }))
}

/// Audits the accounts of all vCPUs against the time since they were made.
fn audit(lab: &Lab<'_>, all: &[Asked]) -> Result<(), CompareError> {
    let made = |asked: &Asked| vec![(asked.at, asked.made); lab.shape.vcpus as usize];
    let before = Reading::of_new(&all.iter().flat_map(made).collect::<Vec<_>>());
    let vcpus: Vec<_> = all.iter().flat_map(|asked| asked.vm.ids()).collect();
    lab.site.audit(&before.until(&Reading::of_accounts(&vcpus, &*lab.site.domain)))
}

/// Starts all VMs at the same moment.
fn ask_for(lab: &Lab<'_>) -> Result<Vec<Asked>, CompareError> {
    let size = lab.site.planned.case.size as usize;
    at_once(size, |n| {
        let name = format!("vm-{n}");
        let booted = Arc::new(OnceLock::new());
        let said = Arc::clone(&booted);
        let console = Sink::AtOnce(Arc::new(move |line| note(line, &said)));
        let at = monotonic();
        let vm = lab.vm(&name, ORDERS, console, None, None).map_err(|source| lab.unmade(&name, source))?;
        let made = monotonic();
        vm.start();
        Ok(Asked { vm, at, made, booted })
    })
}

/// Notes when a line of a console is the first process's first report.
pub(super) fn note(line: &str, booted: &OnceLock<Time>) {
    let report = line.split_once(CONSOLE_PREFIX).and_then(|(_, report)| Report::parse(report.trim_end()));
    if let Some(Report::Started { .. }) = report {
        let _ = booted.set(monotonic());
    }
}

/// Resident part of a guest's memory (unit: bytes).
fn of_guest(vm: &LinuxVm) -> Option<u64> {
    let of_region = |region: &vm_memory::GuestRegionMmap| {
        let start = region.get_host_address(MemoryRegionAddress(0)).ok()? as usize;
        memory::resident_within(start..start + region.len() as usize)
    };
    vm.state().memory().iter().map(of_region).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_is_known_with_and_without_the_vm_s_name_before_it() {
        for (line, is) in [
            ("[vm-0] stile: started 812345", true),
            ("stile: started 5\r\n", true),
            ("[vm-0] stile: begin 0 idle", false),
            ("[    0.1] Linux version 6.1", false),
        ] {
            let booted = OnceLock::new();
            note(line, &booted);
            assert_eq!(booted.get().is_some(), is, "{line}");
        }
    }

    #[test]
    fn times_are_over_all_vms_of_all_batches_and_memory_is_that_of_the_largest_for_each() {
        let ms = |n: u64| Time(n * 1_000_000);
        let batches = [
            Batch { booted: vec![(ms(0), ms(200)), (ms(100), ms(500))], monitor: Some(4 << 20) },
            Batch { booted: vec![(ms(0), ms(250)), (ms(0), ms(500))], monitor: None },
        ];
        let values = values(&batches);
        assert_eq!(values[&Metric::Throughput], 4.0);
        assert_eq!((values[&Metric::LatencyMax], values[&Metric::MonitorPerVm]), (500_000.0, 2048.0));
    }
}
