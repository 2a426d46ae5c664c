//! A cell of partition: one VM of N vCPUs, and N VMs of one vCPU, one after the other, each with half of the window.
//!
//! Which of the two goes first changes from round to round, so that a drift of the host does not favour one of them.
//! Every vCPU does the same operations in both. With locks, each operation is done with a lock held that all vCPUs of a
//! VM share: one lock for all of them, or one for each VM.

use super::fixed;
use super::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::window::metrics::{activity, detail, fairness, latency, ops_of, ops_rate, work};
use crate::window::{VcpuCounts, Window};
use crate::workload::{self, spec};
use std::collections::BTreeMap;
use stile_machine::unikernel::{Spec, Vm};
use stile_results::model::Params;
use stile_suites::{Metric, Setup};

/// How the vCPUs are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Split {
    /// One VM has all vCPUs.
    No,
    /// Each vCPU is a VM of its own.
    Yes,
}

impl Split {
    fn name(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::Yes => "yes",
        }
    }
}

pub(crate) fn measure(site: &Site<'_>) -> Result<Measured, CompareError> {
    let order = match site.planned.round % 2 {
        0 => [Split::No, Split::Yes],
        _ => [Split::Yes, Split::No],
    };
    let mut windows = Vec::new();
    for split in order {
        let Some(window) = window(site, split)? else { return Ok(None) };
        windows.push((split, window));
    }
    let rate_of = |wanted| windows.iter().find(|(split, _)| *split == wanted).map(|(_, window)| rate(window));
    let gain = rate_of(Split::Yes).zip(rate_of(Split::No)).filter(|(_, one)| *one > 0.0).map(|(many, one)| many / one);
    let measurement = |(split, window): &(Split, Window)| {
        let mut values = values(window);
        values.extend(gain.filter(|_| *split == Split::Yes).map(|gain| (Metric::SplitGain, gain)));
        Measurement { params: Params::default().with("split", split.name()), values, detail: detail(window) }
    };
    Ok(Some(windows.iter().map(measurement).collect()))
}

fn rate(window: &Window) -> f64 {
    ops_rate(&window.vcpus.iter().collect::<Vec<_>>(), window.seconds)
}

fn values(window: &Window) -> BTreeMap<Metric, f64> {
    let vcpus: Vec<&VcpuCounts> = window.vcpus.iter().collect();
    let mut values = activity(window);
    values.extend(work(ops_of(&vcpus), window.seconds, &vcpus));
    fairness(&vcpus, &mut values);
    latency(&vcpus, &mut values);
    values
}

/// Measures one of the two; `None` if the user ended the run.
fn window(site: &Site<'_>, split: Split) -> Result<Option<Window>, CompareError> {
    let (options, planned) = (site.context.options, site.planned);
    let size = planned.case.size;
    let image = if planned.case.setup == Setup::Locks(true) { "ticket" } else { "hog" };
    let (vms, vcpus) = match split {
        Split::No => (1, size),
        Split::Yes => (size, 1),
    };
    let cmdline = workload::cmdline(options, vcpus, site.context.loops_per_us);
    let create = |n| {
        let name = format!("{image}-{n}");
        let spec = spec(image, &name, workload::memory(vcpus), &cmdline);
        site.create(&Spec { vcpus, ..spec }, None)
    };
    let vms = (0..vms).map(create).collect::<Result<Vec<Vm>, _>>()?;
    let window = fixed::window(site, &vms, || site.sleep(planned.window / 2).then_some(()))?;
    Ok(window.map(|(window, ())| window))
}
