//! A cell of the suites whose VMs exist from the start and exchange no frames.

use super::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::WARM_UP;
use crate::plan::guests::{self, Guest};
use crate::window::metrics::{cpu_share, detail, of_suite};
use crate::window::{Reading, Window, weights};
use crate::workload::{self, spec};
use stile_machine::unikernel::{Spec, Vm};
use stile_results::model::Params;
use stile_sched::attributes::Attributes;
use stile_suites::Vms;

/// The window of VMs that exist from the start. They start and warm up, and are read before and after `pass`, which
/// lets time pass. `None` if the user ended the run.
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

/// A cell of VMs side by side, once for each variant of the first VM. The order of variants turns from round to round,
/// so that a drift of the host does not favour one of them.
pub(crate) fn measure_variants(site: &Site<'_>) -> Result<Measured, CompareError> {
    let suite = site.context.options.suite;
    let Some(Vms::Beside { key, variants, share, .. }) = suite.builtin().map(|guests| guests.vms) else {
        unreachable!("{suite} has no VMs side by side");
    };
    let length = site.planned.window / variants.len() as u32;
    let first = site.planned.round as usize % variants.len();
    let mut measured = Vec::new();
    for variant in variants[first..].iter().chain(&variants[..first]) {
        let vms = create_with(site, &format!(" {key}={variant}"))?;
        let Some((window, ())) = window(site, &vms, || site.sleep(length).then_some(()))? else { return Ok(None) };
        let mut values = of_suite(suite, &window);
        let main = window.vcpus.len() / 2;
        values.extend(cpu_share(&window.vcpus[..main].iter().collect::<Vec<_>>(), &window).map(|part| (share, part)));
        measured.push(Measurement { params: Params::default().with(key, *variant), values, detail: detail(&window) });
    }
    Ok(Some(measured))
}

/// The VMs of this cell, which do not run yet.
pub(super) fn create(site: &Site<'_>) -> Result<Vec<Vm>, CompareError> {
    create_with(site, "")
}

/// The VMs of this cell, with `more` at the end of their command lines. They do not run yet.
fn create_with(site: &Site<'_>, more: &str) -> Result<Vec<Vm>, CompareError> {
    let (options, size) = (site.context.options, site.planned.case.size);
    let cmdline = workload::cmdline(options, size, site.context.loops_per_us) + more;
    let create = |guest: &Guest| {
        let attributes = Attributes { nice: guest.nice, ..Attributes::default() };
        let spec = spec(guest.image, &guest.name, workload::memory(guest.vcpus), &cmdline);
        site.create(&Spec { vcpus: guest.vcpus, attributes, ..spec }, None)
    };
    guests::guests(options.suite, size).iter().map(create).collect()
}
