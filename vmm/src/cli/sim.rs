//! `stile sim` and `stile compare --sim`: a comparison on a machine that is not there.

use super::Failure;
use super::args::{CompareArgs, SimArgs};
use super::compare::{Outcome, finish, on_interrupt};
use crate::compare::{Options, Plan, Progress, Runner, Scenario, Simulation};
use crate::host::{self, HostCosts, KvmUnavailable};
use crate::report::metric::Suite;
use serde_json::json;
use std::cell::RefCell;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

/// Length of a window (units: s) where the user names none: enough for a hundred rotations.
const WINDOW: f64 = 1.0;

/// Simulates what a file says.
pub(super) fn sim(args: &SimArgs) -> Result<(), Failure> {
    let scenario = Scenario::load(&args.file).map_err(|e| Failure::Input(miette::Report::new(e)))?;
    let costs = scenario.costs(&args.file).map_err(Failure::input)?;
    let events = args.events.as_deref().map(create).transpose()?;
    let simulation = Simulation { topology: scenario.pcpus.topology(), costs, events };
    run(&args.out, &scenario.options(), &simulation, json!(scenario.pcpus), Vec::new())
}

fn create(file: &Path) -> Result<RefCell<BufWriter<File>>, Failure> {
    let created = File::create(file)
        .map_err(|e| Failure::Input(miette::miette!("cannot write the events to {}: {e}", file.display())))?;
    Ok(RefCell::new(BufWriter::new(created)))
}

/// Simulates a comparison on as many pCPUs as it would have here, because the user wants that or there is no KVM.
pub(super) fn compare(args: &CompareArgs, mut options: Options, why: Option<&KvmUnavailable>) -> Result<(), Failure> {
    let mut notes = Vec::new();
    if let Some(why) = why {
        eprintln!("stile: {why}\nThe same comparison is simulated instead.");
        notes.push(format!("KVM cannot be used here, so the comparison was simulated: {why}"));
    }
    // Windows of weights have the length of their rotations.
    if options.suite != Suite::Weights {
        options.duration.get_or_insert(WINDOW);
    }
    let topology = host::topology(&options.pcpus);
    let simulation = Simulation { topology, costs: HostCosts::default(), events: None };
    let pcpus = json!(options.pcpus.to_string());
    run(&args.out, &options, &simulation, pcpus, notes)
}

fn run(
    out: &Path,
    options: &Options,
    simulation: &Simulation,
    pcpus: serde_json::Value,
    notes: Vec<String>,
) -> Result<(), Failure> {
    let interrupted = on_interrupt()?;
    let plan = Plan::new(options);
    eprintln!("simulated {}", plan.scope(options));
    let progress = Progress::new(&plan);
    let ran = Runner::simulated(simulation, options, &interrupted).run(&plan, &progress);
    progress.finish();
    let (samples, remarks, complete) = ran.map_err(Failure::run)?;
    let notes = notes.into_iter().chain(remarks).collect();
    let host = json!({ "simulated": { "pcpus": pcpus, "costs": simulation.costs } });
    finish(out, options, Outcome { host, samples, notes, complete, simulated: true })
}
