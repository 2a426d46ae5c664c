//! A comparison on a simulated machine.

use super::demands::Demands;
use super::failure::Failure;
use super::interrupt::on_interrupt;
use super::outcome::{self, Outcome};
use super::request::{Keep, Request};
use super::rounds::{recordings_possible, run_all};
use serde_json::json;
use std::path::PathBuf;
use stile_compare::{Hint, Options, Plan, Runner, Simulation};
use stile_host::{CpuList, HostCosts, KvmUnavailable, Neighbours, allowed_cpus};
use stile_suites::{Length, Setup};
use tracing::warn;

/// Length of a window (unit: s) if the user names none: enough for a hundred rotations.
const WINDOW: f64 = 1.0;

/// Simulates a comparison on as many pCPUs as it would have with guests, because the user asks for that or KVM is
/// missing.
pub(super) fn compare(request: Request, why: Option<KvmUnavailable>) -> Result<(), Failure> {
    let Request { parts, names_setups, hint, keep, demanded, .. } = request;
    if hint == Hint::Silent {
        return Err(Failure::Input(miette::miette!(
            help = "simulated guests yield: --hint full or --hint none",
            "--hint silent: looking at a guest's code cannot be simulated{}",
            why.map(|why| format!(", and {why}")).unwrap_or_default()
        )));
    }
    let (modelled, others): (Vec<Options>, Vec<Options>) =
        parts.into_iter().partition(|options| options.suite.model().is_some());
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
    if names_setups {
        return Err(match why {
            Some(why) => Failure::NoKvm(why),
            None => Failure::Input(miette::miette!("--setup has no meaning for a simulated machine")),
        });
    }
    let mut notes = Vec::new();
    if let Some(why) = why {
        warn!("{why}\nThe same comparison is simulated instead.");
        notes.push(format!("KVM cannot be used here, so the comparison was simulated: {why}"));
    }
    if !without.is_empty() {
        notes.push(format!("There is no model of the guests of {without}, which were left out."));
    }
    let demands = Demands::new(&demanded, keep.out.as_deref(), &modelled, true)?;
    let mut machines: Vec<_> = modelled.into_iter().map(simulated).collect();
    machines.iter_mut().for_each(|(options, _)| options.reference.clone_from(&demands.reference));
    let pcpus = json!(machines[0].0.pcpus.to_string());
    run(&keep, machines, Remarks { pcpus, notes }, &demands)
}

/// A part of a comparison as it is simulated, and its machine.
fn simulated(mut options: Options) -> (Options, Simulation) {
    match options.suite.descriptor().length {
        Length::Fitting => drop(options.duration.get_or_insert(WINDOW)),
        Length::Rotations(_) | Length::Work(_) => {}
    }
    options.setups = vec![Setup::Usual];
    let neighbours = neighbours(&options.pcpus);
    (options, Simulation { neighbours, costs: HostCosts::default() })
}

/// The topology of these CPUs: that of this host if it has them all; otherwise all share a cache and none share a core.
fn neighbours(pcpus: &CpuList) -> Neighbours {
    let here = allowed_cpus().is_ok_and(|allowed| pcpus.iter().all(|cpu| allowed.contains(cpu)));
    if here { Neighbours::of(pcpus) } else { Neighbours::regular(pcpus, pcpus.len() as u32, 1) }
}

/// Makes the folder of a report before the simulation starts.
pub(super) fn folder(keep: &Keep) -> Result<PathBuf, Failure> {
    let out = keep.folder()?;
    match std::fs::create_dir_all(&out) {
        Ok(()) => Ok(out),
        Err(error) => Err(Failure::Input(miette::miette!(
            help = "name a folder that can be made and written to",
            "--out: cannot make the folder {}: {error}",
            out.display()
        ))),
    }
}

/// The facts of a report besides its figures.
pub(super) struct Remarks {
    /// The simulated machine.
    pub(super) pcpus: serde_json::Value,
    pub(super) notes: Vec<String>,
}

/// Runs the parts one after the other, and writes the report.
pub(super) fn run(
    keep: &Keep,
    machines: Vec<(Options, Simulation)>,
    Remarks { pcpus, notes }: Remarks,
    demands: &Demands,
) -> Result<(), Failure> {
    let (parts, simulations): (Vec<Options>, Vec<Simulation>) = machines.into_iter().unzip();
    let Some(Simulation { costs, .. }) = simulations.first() else { return Ok(()) };
    if keep.record {
        parts.iter().try_for_each(recordings_possible)?;
    }
    let out = &folder(keep)?;
    let interrupted = on_interrupt()?;
    let announcement = |plan: &Plan, options: &Options| format!("simulated {}", plan.scope(options));
    let mut left = simulations.iter();
    let mut ran = run_all(&parts, announcement, |options| {
        let simulation = left.next().expect("each machine is simulated once");
        let runner = Runner::simulated(simulation, options, &interrupted);
        if keep.record { runner.recording_into(out.join("raw")) } else { runner }
    });
    ran.notes.splice(0..0, notes);
    let host = json!({ "simulated": { "pcpus": pcpus, "costs": costs } });
    outcome::write(out, &parts, Outcome { host, ran, simulated: true }, demands)
}
