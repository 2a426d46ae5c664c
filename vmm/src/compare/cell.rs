//! A cell of the suites whose VMs are there from the start and only compute with each other.

use super::metrics::{detail, of_suite};
use super::plan::{CellPlan, WARM_UP};
use super::runner::{CompareError, Context};
use super::window::Reading;
use super::workload::Guest;
use super::{weights, workload};
use crate::recording::Recorder;
use crate::report::metric::{Metric, Suite};
use crate::vm::console::Sink;
use crate::vm::{Spec, Vm};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use stile_sched::Domain;
use stile_sched::domain::Attributes;

/// What a cell gave; `None` if the user ended it.
pub(super) type Measured = Option<(BTreeMap<Metric, f64>, Value)>;

pub(super) fn measure(
    context: &Context<'_>,
    label: &str,
    planned: &CellPlan,
    domain: Arc<dyn Domain>,
    recorder: Option<&Recorder>,
) -> Result<Measured, CompareError> {
    let suite = context.options.suite;
    let guests = workload::guests(suite, planned.size);
    let cmdline = workload::cmdline(context.options, planned.size, context.loops_per_us);
    let create = |guest: &Guest| {
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
        let failed = |source| CompareError::Create { name: guest.name.clone(), label: label.to_owned(), source };
        Vm::create(context.kvm, &spec, Arc::clone(&domain)).map_err(failed)
    };
    let vms = guests.iter().map(create).collect::<Result<Vec<Vm>, _>>()?;
    vms.iter().for_each(|vm| recorder.into_iter().for_each(|recorder| recorder.name(vm)));
    vms.iter().for_each(Vm::start);
    if !context.sleep(WARM_UP) {
        return Ok(None);
    }
    let measured: Vec<&Vm> = vms.iter().collect();
    let before = Reading::take(&measured, &*domain);
    if !context.sleep(planned.window) {
        return Ok(None);
    }
    let window = before.until(&Reading::take(&measured, &*domain));
    vms.iter().try_for_each(|vm| still_runs(vm, label))?;
    context.audit(&window, label)?;
    let values = match suite {
        Suite::Weights => {
            let (_, policy) = &context.options.policies[planned.policy];
            weights::values(policy, &guests, context.options.pcpus.iter().count(), &window)
        }
        _ => of_suite(suite, &window),
    };
    Ok(Some((values, detail(&window))))
}

/// A guest that ended was not measured.
pub(super) fn still_runs(vm: &Vm, label: &str) -> Result<(), CompareError> {
    match vm.state().outcome() {
        None => Ok(()),
        Some(outcome) => Err(CompareError::Ended {
            name: vm.state().name().to_owned(),
            label: label.to_owned(),
            outcome: outcome.clone(),
        }),
    }
}
