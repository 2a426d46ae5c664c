//! `stile compare`: from the command line to a report.

use super::args::CompareArgs;
use super::{Failure, sim};
use crate::compare::{Options, Plan, Progress, Runner, default_policies};
use crate::host::{AutogroupsOff, HostFacts, allowed_cpus, open_kvm};
use crate::recording::recordable;
use crate::report::aggregate::distinct_labels;
use crate::report::model::{Report, RunContext, Sample};
use crate::report::suite::Counted;
use crate::report::{table, writer};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that Ctrl-C and SIGTERM set. A second one changes nothing: it may be the same key, sent to the process and to
/// its group.
pub(super) fn on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(Failure::run)?;
    }
    Ok(flag)
}

pub(super) fn compare(args: &CompareArgs) -> Result<(), Failure> {
    let options = options(args)?;
    if args.sim {
        return sim::compare(args, options, None);
    }
    if args.record {
        recordings_possible(&options)?;
    }
    let kvm = match open_kvm() {
        Ok(kvm) => kvm,
        Err(why) if args.record => return Err(Failure::NoKvm(why)),
        Err(why) => return sim::compare(args, options, Some(why)),
    };
    let plan = Plan::new(&options);
    let facts = HostFacts::gather();
    let interrupted = on_interrupt()?;
    eprintln!("{}", plan.announcement(&options));
    let (_autogroups, mut notes) = autogroups_off();
    let progress = Progress::new(&plan);
    let runner = Runner::new(&kvm, &options, &interrupted);
    let runner = if args.record { runner.recording_into(args.out.join("raw")) } else { runner };
    let (samples, remarks, complete) = runner.run(&plan, &progress).map_err(Failure::run)?;
    progress.finish();
    notes.extend(remarks);
    let mut host = serde_json::to_value(facts).map_err(Failure::run)?;
    host["pcpus"] = json!(options.pcpus.to_string());
    finish(&args.out, &options, Outcome { host, samples, notes, complete, simulated: false })
}

/// Recordings are asked for: one policy at least must have something to record.
pub(super) fn recordings_possible(options: &Options) -> Result<(), Failure> {
    let mut refused = None;
    for (_, policy) in &options.policies {
        match recordable(policy) {
            Ok(()) => return Ok(()),
            Err(error) => refused = Some(error),
        }
    }
    refused.map_or(Ok(()), |error| Err(Failure::input(error)))
}

/// Switches autogroups off for the run, and says what it did; dropping the first part undoes it.
fn autogroups_off() -> (Option<AutogroupsOff>, Vec<String>) {
    match AutogroupsOff::hold() {
        Ok(None) => (None, Vec::new()),
        Ok(held) => (held, vec!["The host's autogroups were switched off during the run.".to_owned()]),
        Err(e) => {
            let note = format!(
                "The host's autogroups are on and cannot be switched off ({e}): under host, starts may take seconds."
            );
            eprintln!("warning: {note}\n  remedy: sudo sysctl kernel.sched_autogroup_enabled=0");
            (None, vec![note])
        }
    }
}

fn options(args: &CompareArgs) -> Result<Options, Failure> {
    let available = allowed_cpus().map_err(Failure::run)?;
    let pcpus = args.pcpus.clone().unwrap_or_else(|| available.clone());
    if let Some(missing) = pcpus.iter().find(|&cpu| !available.contains(cpu)) {
        return Err(Failure::Input(miette::miette!(
            help = format!("this process may use {available}"),
            "--pcpus {pcpus}: there is no CPU {missing} to use"
        )));
    }
    let sizes = sizes(args)?;
    if args.duration.is_some() && args.suite.has_end() {
        return Err(Failure::Input(miette::miette!(
            help = "choose the amount of work: --set loops=N for hackbench, --set messages=N for volano",
            "--duration has no meaning for the suite {}, which ends when its work is done",
            args.suite
        )));
    }
    let policies = if args.policies.is_empty() { default_policies(args.suite) } else { args.policies.clone() };
    let names: Vec<String> = policies.iter().map(ToString::to_string).collect();
    Ok(Options {
        suite: args.suite,
        policies: distinct_labels(&names).into_iter().zip(policies).collect(),
        sizes,
        per_pcpu: None,
        reps: args.reps,
        duration: args.duration,
        pcpus,
        hint: args.hint,
        settings: args.settings.clone(),
        quick: args.quick,
        seed: args.seed,
    })
}

/// The sizes asked for; they must be of the kind that the suite counts.
fn sizes(args: &CompareArgs) -> Result<Vec<u32>, Failure> {
    let counted = args.suite.counted();
    let given = |kind: Counted| match kind {
        Counted::Clients => &args.clients,
        Counted::Vcpus => &args.vcpus,
        Counted::Groups => &args.groups,
        Counted::Rooms => &args.rooms,
    };
    if let Some(wrong) = Counted::ALL.into_iter().find(|&kind| kind != counted && !given(kind).is_empty()) {
        return Err(Failure::Input(miette::miette!(
            help = format!("use --{}", counted.name()),
            "--{} has no meaning for the suite {}",
            wrong.name(),
            args.suite
        )));
    }
    Ok(given(counted).clone())
}

/// What a comparison came to.
pub(super) struct Outcome {
    /// Facts for the report.
    pub(super) host: serde_json::Value,
    pub(super) samples: Vec<Sample>,
    pub(super) notes: Vec<String>,
    /// Not ended by the user.
    pub(super) complete: bool,
    pub(super) simulated: bool,
}

/// Prints the table and writes the report.
pub(super) fn finish(out: &Path, options: &Options, outcome: Outcome) -> Result<(), Failure> {
    let Outcome { mut host, samples, notes, complete, simulated } = outcome;
    let policies = options.policies.iter().map(|(label, policy)| (label.clone(), json!(policy)));
    host["policies"] = serde_json::Value::Object(policies.collect());
    let context = RunContext {
        command: std::env::args().collect(),
        host,
        policies: options.policies.iter().map(|(label, _)| label.clone()).collect(),
        seed: options.seed,
        interrupted: !complete,
        simulated,
        notes,
    };
    let report = Report::from_samples(&samples, context);
    print!("{}", table::terminal(&report, table::Screen::detect()));
    let written = writer::write_all(out, &report, &samples).map_err(Failure::run)?;
    println!("\nreport: {}", written.html.display());
    if complete { Ok(()) } else { Err(Failure::Interrupted) }
}
