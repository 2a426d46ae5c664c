//! `stile sim`: simulates a comparison that a file describes, or the run of a recording.

use super::args::SimArgs;
use super::demands::Demands;
use super::failure::Failure;
use super::interrupt::on_interrupt;
use super::request::Keep;
use super::simulation::{self, Remarks};
use super::{output, recordings};
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use stile_compare::{Scenario, Simulation, TwinError, simulate_twin};
use stile_host::HostCosts;
use stile_recording::Recording;
use stile_recording::figures::figures;
use tracing::warn;

/// Simulates the comparison of a file, or the run of a recording.
pub(super) fn sim(args: &SimArgs) -> Result<(), Failure> {
    match (&args.file, &args.replay) {
        (_, Some(recording)) => replay(recording, args),
        (Some(file), None) => scenario(file, args),
        (None, None) => unreachable!("the command line asks for one of them"),
    }
}

fn scenario(file: &Path, args: &SimArgs) -> Result<(), Failure> {
    let scenario = Scenario::load(file).map_err(|e| Failure::Input(miette::Report::new(e)))?;
    let measured = scenario.costs(file).map_err(Failure::input)?;
    let notes: Vec<String> = measured.warning().into_iter().collect();
    notes.iter().for_each(|note| warn!("{note}"));
    let costs = measured.costs;
    let machine = |(options, neighbours)| (options, Simulation { neighbours, costs });
    let machines: Vec<_> = scenario.machines().into_iter().map(machine).collect();
    let remarks = Remarks { pcpus: json!(scenario.pcpus), notes };
    let keep = Keep { out: args.out.clone(), force: args.force, record: args.record };
    simulation::run(&keep, machines, remarks, &Demands::default())
}

/// Replays a recording, simulates the same run, and compares their figures.
fn replay(path: &Path, args: &SimArgs) -> Result<(), Failure> {
    let interrupted = on_interrupt()?;
    let measured = recordings::open(path)?;
    recordings::replay_quietly(&measured)?;
    let figures_of = |recording: &Recording| figures(recording).map_err(Failure::input);
    let of_measured = figures_of(&measured)?;
    // Only a recording is written: a report in the named folder is kept.
    let keep = Keep { out: args.out.clone(), force: true, record: true };
    let out = simulation::folder(&keep)?;
    let into = out.join("simulated.rec");
    let length = Duration::from_nanos(of_measured.span_ns);
    let twin = simulate_twin(&measured, length, HostCosts::default(), &into, &interrupted);
    twin.map_err(|e| match e {
        TwinError::Compare(e) => Failure::run(e),
        e => Failure::input(e),
    })?;
    let of_twin = figures_of(&Recording::open(&into).map_err(Failure::run)?)?;
    recordings::print_twins(measured.header(), &of_measured, &of_twin)?;
    output::line(format_args!("\nthe simulated run: {}", into.display()))
}
