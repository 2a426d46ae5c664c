//! A cell of the suites whose VMs are there from the start and only compute with each other.

use super::jitter::{jitter, rates};
use super::metrics::{detail, of_suite};
use super::plan::WARM_UP;
use super::runner::CompareError;
use super::site::Site;
use super::window::{Reading, ops};
use super::{weights, workload};
use crate::report::metric::Metric;
use crate::report::model::Params;
use crate::report::suite::Suite;
use crate::vm::console::Sink;
use crate::vm::{Spec, Vm};
use serde_json::Value;
use std::collections::BTreeMap;
use stile_sched::domain::Attributes;

/// What a cell gave: a sample, or several that differ in parameters of their own; `None` if the user ended it.
pub(super) type Measured = Option<Vec<Measurement>>;

/// One sample of a cell.
#[derive(Debug)]
pub(super) struct Measurement {
    /// Parameters besides the cell's.
    pub(super) params: Params,
    pub(super) values: BTreeMap<Metric, f64>,
    pub(super) detail: Value,
}

impl Measurement {
    /// The only one of its cell.
    pub(super) fn only(values: BTreeMap<Metric, f64>, detail: Value) -> Measured {
        Some(vec![Self { params: Params::default(), values, detail }])
    }
}

pub(super) fn measure(site: &Site<'_>) -> Result<Measured, CompareError> {
    let (options, planned) = (site.context.options, site.planned);
    let suite = options.suite;
    let guests = workload::guests(suite, planned.case.size);
    let cmdline = workload::cmdline(options, planned.case.size, site.context.loops_per_us);
    let create = |guest: &workload::Guest| {
        let spec = Spec {
            name: &guest.name,
            image: stile_guest_images::image(guest.image).expect("the suites run built-in images"),
            vcpus: guest.vcpus,
            memory: workload::memory(guest.vcpus),
            attributes: Attributes { nice: guest.nice, ..Attributes::default() },
            cmdline: &cmdline,
            console: Sink::Terminal,
            device: None,
        };
        site.create(&spec, None)
    };
    let vms = guests.iter().map(create).collect::<Result<Vec<Vm>, _>>()?;
    vms.iter().for_each(Vm::start);
    if !site.sleep(WARM_UP) {
        return Ok(None);
    }
    let measured: Vec<&Vm> = vms.iter().collect();
    let before = Reading::take(&measured, &*site.domain);
    let rates = match suite {
        Suite::Entry => rates(planned.window, |time| site.sleep(time), || ops(&vms)),
        _ => site.sleep(planned.window).then(Vec::new),
    };
    let Some(rates) = rates else { return Ok(None) };
    let window = before.until(&Reading::take(&measured, &*site.domain));
    vms.iter().try_for_each(|vm| site.still_runs(vm))?;
    site.audit(&window)?;
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
