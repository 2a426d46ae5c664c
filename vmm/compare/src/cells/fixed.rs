//! A cell of the suites whose VMs are there from the start and only compute with each other.

use super::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::WARM_UP;
use crate::plan::guests::{self, Guest};
use crate::window::metrics::{detail, of_suite};
use crate::window::{Reading, Window, weights};
use crate::workload::{self, spec};
use stile_machine::unikernel::{Spec, Vm};
use stile_sched::attributes::Attributes;

/// The window of VMs that were there from the start: they start and warm up, and are read before and after `pass`, which
/// lets time pass; `None` if the user ended the run.
pub(super) fn window<T>(
    site: &Site<'_>,
    vms: &[Vm],
    pass: impl FnOnce() -> Option<T>,
) -> Result<Option<(Window, T)>, CompareError> {
    vms.iter().for_each(|vm| vm.start());
    if !site.sleep(WARM_UP) {
        return Ok(None);
    }
    let measured: Vec<&Vm> = vms.iter().collect();
    let before = Reading::take(&measured, &*site.domain);
    let Some(passed) = pass() else { return Ok(None) };
    let window = before.until(&Reading::take(&measured, &*site.domain));
    vms.iter().try_for_each(|vm| site.still_runs(vm))?;
    site.audit(&window)?;
    Ok(Some((window, passed)))
}

/// A cell whose metrics are those of its suite's parts.
pub(crate) fn measure(site: &Site<'_>) -> Result<Measured, CompareError> {
    let vms = create(site)?;
    let Some((window, ())) = window(site, &vms, || site.sleep(site.planned.window).then_some(()))? else {
        return Ok(None);
    };
    let values = of_suite(site.context.options.suite, &window);
    Ok(Measurement::only(values, detail(&window)))
}

/// A cell whose metrics compare CPU time with weights.
pub(crate) fn measure_weights(site: &Site<'_>) -> Result<Measured, CompareError> {
    let vms = create(site)?;
    let Some((window, ())) = window(site, &vms, || site.sleep(site.planned.window).then_some(()))? else {
        return Ok(None);
    };
    let (options, planned) = (site.context.options, site.planned);
    let (_, policy) = &options.policies[planned.policy];
    let guests = guests::guests(options.suite, planned.case.size);
    Ok(Measurement::only(weights::values(policy, &guests, site.pcpus.len(), &window), detail(&window)))
}

/// The VMs of this cell, not running yet.
pub(super) fn create(site: &Site<'_>) -> Result<Vec<Vm>, CompareError> {
    let (options, size) = (site.context.options, site.planned.case.size);
    let cmdline = workload::cmdline(options, size, site.context.loops_per_us);
    let create = |guest: &Guest| {
        let attributes = Attributes { nice: guest.nice, ..Attributes::default() };
        let spec = spec(guest.image, &guest.name, workload::memory(guest.vcpus), &cmdline);
        site.create(&Spec { vcpus: guest.vcpus, attributes, ..spec }, None)
    };
    guests::guests(options.suite, size).iter().map(create).collect()
}
