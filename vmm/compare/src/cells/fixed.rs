//! A cell of the suites whose VMs are there from the start and only compute with each other.

use super::site::Site;
use super::{Measured, Measurement};
use crate::error::CompareError;
use crate::plan::WARM_UP;
use crate::window::jitter::{jitter, rates};
use crate::window::metrics::{detail, of_suite};
use crate::window::weights;
use crate::window::{Reading, Window, ops};
use crate::workload::{self, spec};
use stile_machine::unikernel::{Spec, Vm};
use stile_results::metric::Metric;
use stile_results::suite::Suite;
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

pub(super) fn measure(site: &Site<'_>) -> Result<Measured, CompareError> {
    let (options, planned) = (site.context.options, site.planned);
    let suite = options.suite;
    let guests = workload::guests(suite, planned.case.size);
    let cmdline = workload::cmdline(options, planned.case.size, site.context.loops_per_us);
    let create = |guest: &workload::Guest| {
        let attributes = Attributes { nice: guest.nice, ..Attributes::default() };
        let spec = spec(guest.image, &guest.name, workload::memory(guest.vcpus), &cmdline);
        site.create(&Spec { vcpus: guest.vcpus, attributes, ..spec }, None)
    };
    let vms = guests.iter().map(create).collect::<Result<Vec<Vm>, _>>()?;
    let pass = || match suite {
        Suite::Entry => rates(planned.window, |time| site.sleep(time), || ops(&vms)),
        _ => site.sleep(planned.window).then(Vec::new),
    };
    let Some((window, rates)) = window(site, &vms, pass)? else { return Ok(None) };
    let values = match suite {
        Suite::Weights => {
            let (_, policy) = &options.policies[planned.policy];
            weights::values(policy, &guests, site.pcpus.len(), &window)
        }
        Suite::Entry => {
            of_suite(suite, &window).into_iter().chain(jitter(&rates).map(|j| (Metric::Jitter, j))).collect()
        }
        _ => of_suite(suite, &window),
    };
    Ok(Measurement::only(values, detail(&window)))
}
