//! A cell of the suites that run in one VM.

use super::metrics::{detail, of_suite};
use super::plan::{CellPlan, WARM_UP};
use super::runner::{CompareError, Context};
use super::window::Reading;
use super::workload;
use crate::report::metric::Metric;
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
) -> Result<Measured, CompareError> {
    let suite = context.options.suite;
    let name = workload::image(suite);
    let spec = Spec {
        name,
        image: stile_guest_images::image(name).expect("the suites run built-in images"),
        vcpus: planned.size,
        memory: workload::memory(planned.size),
        attributes: Attributes::default(),
        cmdline: &workload::cmdline(context.options, context.loops_per_us),
        console: Sink::Terminal,
        device: None,
    };
    let create = |source| CompareError::Create { name: name.to_owned(), label: label.to_owned(), source };
    let vm = Vm::create(context.kvm, &spec, Arc::clone(&domain)).map_err(create)?;
    vm.start();
    if !context.sleep(WARM_UP) {
        return Ok(None);
    }
    let before = Reading::take(&[&vm], &*domain);
    if !context.sleep(context.window) {
        return Ok(None);
    }
    let window = before.until(&Reading::take(&[&vm], &*domain));
    still_runs(&vm, label)?;
    Ok(Some((of_suite(suite, &window), detail(&window))))
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
