//! `stile sim` and `stile compare --sim`: a comparison on a machine that is not there.

use super::args::{CompareArgs, SimArgs};
use super::compare::{Outcome, finish, on_interrupt, recordings_possible, run_all};
use super::demands::Demands;
use super::{Failure, output, recordings};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;
use stile_compare::{Hint, Options, Plan, Runner, Scenario, Setup, Simulation, TwinError, has_model, simulate_twin};
use stile_host::{CpuList, HostCosts, KvmUnavailable, Neighbours, allowed_cpus};
use stile_recording::Recording;
use stile_recording::figures::figures;
use stile_report::place::Wanted;
use stile_results::suite::Suite;

/// Length of a window (units: s) where the user names none: enough for a hundred rotations.
const WINDOW: f64 = 1.0;

/// Simulates what a file says, or what a recording is of.
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
    notes.iter().for_each(|note| output::note(format_args!("warning: {note}")));
    let costs = measured.costs;
    let machine = |(options, neighbours)| (options, Simulation { neighbours, costs });
    let machines: Vec<_> = scenario.machines().into_iter().map(machine).collect();
    let remarks = Remarks { pcpus: json!(scenario.pcpus), notes };
    let place = Wanted { out: args.out.as_deref(), force: args.force };
    run((place, args.record), machines, remarks, &Demands::default())
}

/// Replays a recording, simulates its twin, and holds their figures against each other.
fn replay(path: &Path, args: &SimArgs) -> Result<(), Failure> {
    let interrupted = on_interrupt()?;
    let measured = recordings::open(path)?;
    recordings::replay_quietly(&measured)?;
    let figures_of = |recording: &Recording| figures(recording).map_err(Failure::input);
    let of_measured = figures_of(&measured)?;
    // Only a recording is written: a report in a folder that the user names stays.
    let out = folder(Wanted { out: args.out.as_deref(), force: true })?;
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

/// Simulates a comparison on as many pCPUs as it would have here, because the user wants that or there is no KVM.
pub(super) fn compare(args: &CompareArgs, parts: Vec<Options>, why: Option<KvmUnavailable>) -> Result<(), Failure> {
    if args.hint == Hint::Silent {
        return Err(Failure::Input(miette::miette!(
            help = "simulated guests yield: --hint full or --hint none",
            "--hint silent: looking at a guest's code cannot be simulated{}",
            why.map(|why| format!(", and {why}")).unwrap_or_default()
        )));
    }
    let (modelled, others): (Vec<Options>, Vec<Options>) =
        parts.into_iter().partition(|options| has_model(options.suite));
    let without: Vec<&str> = others.iter().map(|options| options.suite.name()).collect();
    let without = stile_text::list(&without);
    if modelled.is_empty() {
        return Err(match why {
            Some(why) => Failure::NoKvm(why),
            None => Failure::Input(miette::miette!(
                help = "leave out --sim, on a machine with KVM",
                "--sim: there is no model of the guests of {without}"
            )),
        });
    }
    if !args.setups.is_empty() {
        return Err(match why {
            Some(why) => Failure::NoKvm(why),
            None => Failure::Input(miette::miette!("--setup has no meaning for a simulated machine")),
        });
    }
    let mut notes = Vec::new();
    if let Some(why) = why {
        output::note(format_args!("stile: {why}\nThe same comparison is simulated instead."));
        notes.push(format!("KVM cannot be used here, so the comparison was simulated: {why}"));
    }
    if !without.is_empty() {
        notes.push(format!("There is no model of the guests of {without}, which were left out."));
    }
    let machine = |mut options: Options| {
        // Windows of weights have the length of their rotations.
        if options.suite != Suite::Weights && !options.suite.has_end() {
            options.duration.get_or_insert(WINDOW);
        }
        options.setups = vec![Setup::Usual];
        let neighbours = neighbours(&options.pcpus);
        (options, Simulation { neighbours, costs: HostCosts::default() })
    };
    let demands = Demands::new(args, &modelled, true)?;
    let mut machines: Vec<_> = modelled.into_iter().map(machine).collect();
    machines.iter_mut().for_each(|(options, _)| options.reference.clone_from(&demands.reference));
    let pcpus = json!(machines[0].0.pcpus.to_string());
    run((args.place(), args.record), machines, Remarks { pcpus, notes }, &demands)
}

/// Which of these CPUs are near each other: as on this host, if it has them all; else all share a cache, and none a core.
fn neighbours(pcpus: &CpuList) -> Neighbours {
    let here = allowed_cpus().is_ok_and(|allowed| pcpus.iter().all(|cpu| allowed.contains(cpu)));
    if here { Neighbours::of(pcpus) } else { Neighbours::regular(pcpus, pcpus.len() as u32, 1) }
}

/// Makes the folder of a report, before there is anything to write into it.
fn folder(place: Wanted<'_>) -> Result<PathBuf, Failure> {
    let out = place.folder(Path::new(".")).map_err(Failure::input)?;
    std::fs::create_dir_all(&out).map_err(|error| {
        Failure::Input(miette::miette!(
            help = "name a folder that can be made and written to",
            "--out: cannot make the folder {}: {error}",
            out.display()
        ))
    })?;
    Ok(out)
}

/// What a report says besides its figures.
struct Remarks {
    /// The machine.
    pcpus: serde_json::Value,
    notes: Vec<String>,
}

/// Runs one machine after the other.
fn run(
    (place, record): (Wanted<'_>, bool),
    machines: Vec<(Options, Simulation)>,
    Remarks { pcpus, notes }: Remarks,
    demands: &Demands,
) -> Result<(), Failure> {
    let (parts, simulations): (Vec<Options>, Vec<Simulation>) = machines.into_iter().unzip();
    let Some(Simulation { costs, .. }) = simulations.first() else { return Ok(()) };
    if record {
        parts.iter().try_for_each(recordings_possible)?;
    }
    let out = &folder(place)?;
    let interrupted = on_interrupt()?;
    let announcement = |plan: &Plan, options: &Options| format!("simulated {}", plan.scope(options));
    let mut left = simulations.iter();
    let mut ran = run_all(&parts, announcement, |options| {
        let simulation = left.next().expect("each machine is simulated once");
        let runner = Runner::simulated(simulation, options, &interrupted);
        if record { runner.recording_into(out.join("raw")) } else { runner }
    });
    ran.notes.splice(0..0, notes);
    let host = json!({ "simulated": { "pcpus": pcpus, "costs": costs } });
    finish(out, &parts, Outcome { host, ran, simulated: true }, demands)
}
