//! `stile sim` and `stile compare --sim`: a comparison on a machine that is not there.

use super::args::{CompareArgs, SimArgs};
use super::compare::{Outcome, finish, on_interrupt, recordings_possible};
use super::{Failure, recordings};
use crate::compare::{
    End, Hint, Options, Plan, Progress, Runner, Scenario, Simulation, TwinError, has_model, simulate_twin,
};
use crate::host::{HostCosts, KvmUnavailable, Neighbours};
use crate::recording::Recording;
use crate::recording::figures::figures;
use crate::report::suite::Suite;
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Length of a window (units: s) where the user names none: enough for a hundred rotations.
const WINDOW: f64 = 1.0;

/// Simulates what a file says, or what a recording is of.
pub(super) fn sim(args: &SimArgs) -> Result<(), Failure> {
    match (&args.file, &args.replay) {
        (_, Some(recording)) => replay(recording, &args.out),
        (Some(file), None) => scenario(file, args),
        (None, None) => unreachable!("the command line asks for one of them"),
    }
}

fn scenario(file: &Path, args: &SimArgs) -> Result<(), Failure> {
    let scenario = Scenario::load(file).map_err(|e| Failure::Input(miette::Report::new(e)))?;
    let costs = scenario.costs(file).map_err(Failure::input)?;
    let machine = |(options, neighbours)| (options, Simulation { neighbours, costs });
    let machines: Vec<_> = scenario.machines().into_iter().map(machine).collect();
    run((&args.out, args.record), &machines, json!(scenario.pcpus), Vec::new())
}

/// Replays a recording, simulates its twin, and holds their figures against each other.
fn replay(path: &Path, out: &Path) -> Result<(), Failure> {
    let interrupted = on_interrupt()?;
    recordings::replay_quietly(path)?;
    let measured = Recording::open(path).map_err(Failure::input)?;
    let figures_of = |recording: &Recording| figures(recording).map_err(Failure::input);
    let of_measured = figures_of(&measured)?;
    let into = out.join("simulated.rec");
    std::fs::create_dir_all(out)
        .map_err(|e| Failure::Input(miette::miette!("cannot make the folder {}: {e}", out.display())))?;
    let length = Duration::from_nanos(of_measured.span_ns);
    let twin = simulate_twin(&measured, length, HostCosts::default(), &into, &interrupted);
    twin.map_err(|e| match e {
        TwinError::Compare(e) => Failure::run(e),
        e => Failure::input(e),
    })?;
    let of_twin = figures_of(&Recording::open(&into).map_err(Failure::run)?)?;
    recordings::print_twins(measured.header(), &of_measured, &of_twin);
    println!("\nthe simulated run: {}", into.display());
    Ok(())
}

/// Simulates a comparison on as many pCPUs as it would have here, because the user wants that or there is no KVM.
pub(super) fn compare(args: &CompareArgs, mut options: Options, why: Option<KvmUnavailable>) -> Result<(), Failure> {
    if options.hint == Hint::Silent {
        return Err(Failure::Input(miette::miette!(
            help = "simulated guests yield: --hint full or --hint none",
            "--hint silent: looking at a guest's code cannot be simulated{}",
            why.map(|why| format!(", and {why}")).unwrap_or_default()
        )));
    }
    if !has_model(options.suite) {
        return Err(match why {
            Some(why) => Failure::NoKvm(why),
            None => Failure::Input(miette::miette!(
                help = "leave out --sim, on a machine with KVM",
                "--sim: there is no model of the guests of {}",
                options.suite
            )),
        });
    }
    if options.full || !options.setups.is_empty() {
        return Err(match why {
            Some(why) => Failure::NoKvm(why),
            None => Failure::Input(miette::miette!("--setup has no meaning for a simulated machine")),
        });
    }
    let mut notes = Vec::new();
    if let Some(why) = why {
        eprintln!("stile: {why}\nThe same comparison is simulated instead.");
        notes.push(format!("KVM cannot be used here, so the comparison was simulated: {why}"));
    }
    // Windows of weights have the length of their rotations.
    if options.suite != Suite::Weights {
        options.duration.get_or_insert(WINDOW);
    }
    let simulation = Simulation { neighbours: Neighbours::of(&options.pcpus), costs: HostCosts::default() };
    let pcpus = json!(options.pcpus.to_string());
    run((&args.out, args.record), &[(options, simulation)], pcpus, notes)
}

/// Runs one machine after the other; they differ in their pCPUs alone.
fn run(
    (out, record): (&Path, bool),
    machines: &[(Options, Simulation)],
    pcpus: serde_json::Value,
    mut notes: Vec<String>,
) -> Result<(), Failure> {
    let Some((first, Simulation { costs, .. })) = machines.first() else { return Ok(()) };
    if record {
        recordings_possible(first)?;
    }
    let interrupted = on_interrupt()?;
    let (mut samples, mut end) = (Vec::new(), End::Complete);
    for (options, simulation) in machines {
        let plan = Plan::new(options);
        eprintln!("simulated {}", plan.scope(options));
        let progress = Progress::new(&plan);
        let runner = Runner::simulated(simulation, options, &interrupted);
        let runner = if record { runner.recording_into(out.join("raw")) } else { runner };
        let ran = runner.run(&plan, &progress);
        progress.finish();
        samples.extend(ran.samples);
        notes.extend(ran.notes);
        end = ran.end;
        if !matches!(end, End::Complete) {
            break;
        }
    }
    let host = json!({ "simulated": { "pcpus": pcpus, "costs": costs } });
    finish(out, first, Outcome { host, samples, notes, end, simulated: true })
}
