//! A simulated cell: the same suite, sizes and metrics, without guests.
//!
//! Each guest program has a model ([`stile_sched::sim::guest`]). `cast` makes the models of a suite's vCPUs, and
//! `stage` runs the simulated machine. The results go into the same [`Window`] as readings of guests. In every run of
//! `rsdl` each wait is checked against the policy's bound ([`wait_bound`](stile_assembly::wait_bound)). A longer wait
//! ends the comparison.

mod cast;
mod ending;
pub(super) mod stage;
mod traffic;
pub(super) mod twin;

use super::cells::netbench;
use super::error::CompareError;
use super::measurement::{Measured, Measurement};
use super::plan::options::Options;
use super::plan::work::Work;
use super::plan::{CellPlan, WARM_UP, guests};
use super::window::metrics::{detail, of_suite};
use super::window::{Window, weights};
use serde_json::json;
use stage::{Simulation, Stage};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use stile_results::model::Params;
use stile_sched::Nanos;
use stile_suites::{Metric, Model, Vms};

/// Simulates one cell, and records it if a file is named.
pub(super) fn measure(
    options: &Options,
    simulation: &Simulation,
    planned: &CellPlan,
    recording: Option<(&Path, Params)>,
    interrupted: &AtomicBool,
) -> Result<Measured, CompareError> {
    let no_model = CompareError::NoGuests { suite: options.suite, kind: "simulated" };
    let model = options.suite.model().ok_or(no_model)?;
    let mut stage = Stage::new(options, simulation, planned, model, interrupted);
    if recording.is_some() {
        stage.machine = stage.machine.traced();
    }
    let work = Work::of(options, planned.case.size);
    if let Some(work) = work {
        ending::build(&mut stage, work)?;
    }
    stage.start();
    if !stage.run(WARM_UP.into()) {
        return Ok(None);
    }
    if let Some(work) = work {
        return ending::measure(&mut stage, work, recording);
    }
    stage.machine.forget_waits();
    let before = stage.read();
    let window = Nanos::from(planned.window);
    let Some(newcomers) = stage.pass(window) else { return Ok(None) };
    let window = stage.window(&before, &stage.read(), window);
    if let Some((path, params)) = recording {
        stage.record(path, params)?;
    }
    stage.judge()?;
    let mut detail = detail(&window);
    detail["decisions"] = json!(stage.machine.decisions());
    let starts: Vec<f64> = newcomers.iter().map(|&newcomer| stage.start_latency(newcomer)).collect();
    Ok(Measurement::only(values(options, planned, model, &window, &starts), detail))
}

/// The metrics of a window. With netbench, they include the time that each new VM took to start (unit: us).
fn values(
    options: &Options,
    planned: &CellPlan,
    model: Model,
    window: &Window,
    starts: &[f64],
) -> BTreeMap<Metric, f64> {
    let (suite, size) = (options.suite, planned.case.size);
    match (model, suite.builtin().map(|guests| guests.vms)) {
        (Model::FileServer, _) => netbench::values(window, size as usize, 0, starts),
        (Model::Roles, Some(Vms::Nices(_))) => {
            let (_, policy) = &options.policies[planned.policy];
            weights::values(policy, &guests::guests(suite, size), options.pcpus.len(), window)
        }
        (Model::Roles | Model::ChatRooms, _) => of_suite(suite, window),
    }
}

#[cfg(test)]
mod tests;
