//! `stile compare`: from the command line to a report.

use super::args::{CompareArgs, GuestKind, Subject};
use super::demands::Demands;
use super::{Failure, linux, output, sim};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use stile_compare::{
    End, Options, PCPUS, Plan, Progress, REPORTED, Ran, Runner, STEPS, Setup, Until, check_settings, check_sizes,
    default_policies, divisions, remove_steps, reports,
};
use stile_config::PolicyConfig;
use stile_host::{AutogroupsOff, HostFacts, allowed_cpus, open_kvm};
use stile_recording::recordable;
use stile_report::{table, writer};
use stile_results::aggregate::distinct_labels;
use stile_results::journal::Journal;
use stile_results::model::{Report, RunContext};
use stile_results::raw;
use stile_results::suite::{Counted, Suite};

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
    let mut parts = parts(args)?;
    if args.sim {
        return sim::compare(args, parts, None);
    }
    if args.record {
        parts.iter().try_for_each(recordings_possible)?;
    }
    let kvm = match open_kvm() {
        Ok(kvm) => kvm,
        Err(why) if args.record || parts.iter().any(|options| options.linux.is_some()) => {
            return Err(Failure::NoKvm(why));
        }
        Err(why) => return sim::compare(args, parts, Some(why)),
    };
    let demands = Demands::new(args, &parts, false)?;
    parts.iter_mut().for_each(|options| options.reference.clone_from(&demands.reference));
    let mut host = serde_json::to_value(HostFacts::gather()).map_err(Failure::run)?;
    let interrupted = on_interrupt()?;
    let out = args.place().folder(Path::new(".")).map_err(Failure::input)?;
    let journal = Journal::create(&out).map_err(Failure::input)?;
    let (autogroups, notes) = autogroups_off();
    let mut ran = run_all(&parts, Plan::announcement, |options| {
        let runner = Runner::new(&kvm, options, &interrupted).keeping(&journal);
        let runner = runner.with_steps_in(out.join(STEPS));
        if args.record { runner.recording_into(out.join("raw")) } else { runner }
    });
    ran.notes.splice(0..0, notes.into_iter().chain(linux::notes(&parts)));
    // Before anything is printed, which may end the program.
    drop(autogroups);
    host["pcpus"] = json!(parts[0].pcpus.to_string());
    finish(&out, &parts, Outcome { host, ran, simulated: false }, &demands)
}

/// Runs one part after the other, until one does not come to its end.
pub(super) fn run_all<'a>(
    parts: &'a [Options],
    announcement: impl Fn(&Plan, &Options) -> String,
    mut runner: impl FnMut(&'a Options) -> Runner<'a>,
) -> Ran {
    let plans: Vec<Plan> = parts.iter().map(Plan::new).collect();
    plans.iter().zip(parts).for_each(|(plan, options)| eprintln!("{}", announcement(plan, options)));
    let divisions: Vec<String> = parts.iter().flat_map(divisions).collect();
    divisions.iter().for_each(|division| eprintln!("{division}"));
    let mut progress = Progress::new(plans.iter().map(Plan::estimate).sum());
    let mut all = Ran { notes: divisions, ..Ran::default() };
    let mut planned = Duration::ZERO;
    for (plan, options) in plans.iter().zip(parts) {
        let Ran { samples, notes, mut disturbed, recordings, steps, end } = runner(options).run(plan, &mut progress);
        all.samples.extend(samples);
        all.recordings.extend(recordings);
        all.steps.extend(steps);
        // A note of one of several says of which.
        let suite = if parts.len() > 1 { format!("{}: ", options.suite) } else { String::new() };
        all.notes.extend(notes.into_iter().map(|note| suite.clone() + &note));
        disturbed.notes.iter_mut().for_each(|note| note.insert_str(0, &suite));
        all.disturbed.add(disturbed);
        all.end = end;
        if !matches!(all.end, End::Complete) {
            break;
        }
        planned += plan.estimate();
        progress.reached(planned);
    }
    progress.finish();
    all
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

/// What is to be run: a suite, or all those of the reports.
fn parts(args: &CompareArgs) -> Result<Vec<Options>, Failure> {
    let suites = if let Subject::One(suite) = args.suite { vec![suite] } else { REPORTED.to_vec() };
    if args.guest == GuestKind::Builtin {
        let set = args.settings.iter().map(|(key, value)| (key.as_str(), *value));
        check_settings(&suites, set).map_err(|e| Failure::Input(miette::miette!("--set: {e}")))?;
    }
    match args.suite {
        Subject::One(suite) => {
            let common = options(args, suite)?;
            let default = || labelled(&default_policies(suite, args.full));
            let budget = args.full.then_some(f64::INFINITY);
            let (sizes, setups) = (sizes(args, suite)?, setups(args, suite)?);
            let part = Options { sizes, setups, budget, ..common };
            if let Some(with_linux) = linux::guests(args, &part)? {
                return Ok(vec![with_linux]);
            }
            check_sizes(&part).map_err(Failure::input)?;
            let policies = if part.policies.is_empty() { default() } else { part.policies };
            Ok(vec![Options { policies, ..part }])
        }
        Subject::Reports if args.guest != GuestKind::Builtin => Err(Failure::Input(miette::miette!(
            help = "compare hackbench, tbench, cyclictest or boot",
            "--guest: the suites of the reports have built-in guests"
        ))),
        Subject::Reports
            if args.setups.is_empty() && Counted::ALL.into_iter().all(|kind| given(args, kind).is_empty()) =>
        {
            Ok(reports(&options(args, Suite::Netbench)?))
        }
        Subject::Reports => Err(Failure::Input(miette::miette!(
            help = "leave out --vcpus, --clients, --vms, --groups, --rooms and --setup, or compare one of the suites alone",
            "each of the suites of the reports has sizes of its own"
        ))),
    }
}

pub(super) fn labelled(policies: &[PolicyConfig]) -> Vec<(String, PolicyConfig)> {
    let names: Vec<String> = policies.iter().map(ToString::to_string).collect();
    distinct_labels(&names).into_iter().zip(policies.iter().cloned()).collect()
}

/// What does not depend on the suite; without policies if none are named.
fn options(args: &CompareArgs, suite: Suite) -> Result<Options, Failure> {
    let available = allowed_cpus().map_err(Failure::run)?;
    let pcpus = args.pcpus.clone().unwrap_or_else(|| available.clone());
    if args.sim && !PCPUS.contains(&(pcpus.len() as u32)) {
        return Err(Failure::Input(miette::miette!(
            "--pcpus {pcpus}: a simulated machine has {} to {} pCPUs",
            PCPUS.start(),
            PCPUS.end()
        )));
    }
    if let Some(missing) = pcpus.iter().find(|&cpu| !args.sim && !available.contains(cpu)) {
        return Err(Failure::Input(miette::miette!(
            help = format!("this process may use {available}"),
            "--pcpus {pcpus}: there is no CPU {missing} to use"
        )));
    }
    if args.duration.is_some() && suite.has_end() {
        return Err(Failure::Input(miette::miette!(
            help = "choose the amount of work: --set loops=N for hackbench, --set messages=N for volano",
            "--duration has no meaning for the suite {suite}, which ends when its work is done"
        )));
    }
    Ok(Options {
        reps: args.reps,
        duration: args.duration,
        hint: args.hint,
        settings: args.settings.clone(),
        quick: args.quick,
        full: args.full,
        until: args.until.map(|width| Until { width, limit: Duration::from_secs_f64(args.limit) }),
        seed: args.seed,
        ..Options::new(suite, labelled(&args.policies), pcpus)
    })
}

/// The sizes asked for; they must be of the kind that the suite counts.
fn sizes(args: &CompareArgs, suite: Suite) -> Result<Vec<u32>, Failure> {
    let counted = suite.counted();
    if let Some(wrong) = Counted::ALL.into_iter().find(|&kind| kind != counted && !given(args, kind).is_empty()) {
        return Err(Failure::Input(miette::miette!(
            help = format!("use --{}", counted.name()),
            "--{} has no meaning for the suite {}",
            wrong.name(),
            suite
        )));
    }
    Ok(given(args, counted).clone())
}

/// The sizes of one kind that were asked for.
fn given(args: &CompareArgs, kind: Counted) -> &Vec<u32> {
    match kind {
        Counted::Clients => &args.clients,
        Counted::Vcpus => &args.vcpus,
        Counted::Vms => &args.vms,
        Counted::Groups => &args.groups,
        Counted::Rooms => &args.rooms,
    }
}

/// The setups asked for; they must be among those that the suite has.
fn setups(args: &CompareArgs, suite: Suite) -> Result<Vec<Setup>, Failure> {
    let suits = |setup: &Setup| match args.guest {
        GuestKind::Builtin => setup.suits(suite),
        GuestKind::Linux(_) => matches!(setup, Setup::Each(_)),
    };
    let Some(wrong) = args.setups.iter().find(|setup| !suits(setup)) else { return Ok(args.setups.clone()) };
    let own = Setup::of(suite, true, false);
    let has = own.iter().filter(|setup| **setup != Setup::Usual).map(ToString::to_string).collect::<Vec<_>>();
    let help = match has.is_empty() {
        _ if args.guest != GuestKind::Builtin => "Linux guests have VCPUSxMEMORY, such as 2x256M".to_owned(),
        true => format!("{} has none to choose", suite),
        false => format!("{} has {}", suite, has.join(", ")),
    };
    Err(Failure::Input(miette::miette!(help = help, "--setup {wrong} has no meaning for the suite {}", suite)))
}

/// What was measured is there, but no report of it.
#[derive(Debug, thiserror::Error)]
#[error("the report cannot be written; every sample is in {}", samples.display())]
struct Unwritten {
    samples: PathBuf,
    #[source]
    source: writer::WriteError,
}

/// What a comparison came to.
pub(super) struct Outcome {
    /// Facts for the report.
    pub(super) host: serde_json::Value,
    pub(super) ran: Ran,
    pub(super) simulated: bool,
}

/// Writes the report and prints its table. The table is printed even where the report cannot be written.
pub(super) fn finish(out: &Path, parts: &[Options], outcome: Outcome, demands: &Demands) -> Result<(), Failure> {
    let Outcome { mut host, ran: Ran { samples, mut notes, disturbed, recordings, steps, end }, simulated } = outcome;
    let end = match end {
        // An earlier report in the folder stays what it is.
        End::Failed(error) if samples.is_empty() => return Err(Failure::run(error)),
        End::Interrupted if samples.is_empty() => {
            output::note(format_args!(
                "The run was interrupted before anything was measured; there is no report of it."
            ));
            return Err(Failure::Interrupted);
        }
        end => end,
    };
    let mut policies: Vec<&(String, PolicyConfig)> = Vec::new();
    for policy in parts.iter().flat_map(|options| &options.policies) {
        if !policies.contains(&policy) {
            policies.push(policy);
        }
    }
    let full = policies.iter().map(|(label, policy)| (label.clone(), json!(policy)));
    notes.splice(0..0, demands.notes.iter().cloned());
    host["policies"] = serde_json::Value::Object(full.collect());
    let context = RunContext {
        command: std::env::args().collect(),
        host,
        policies: policies.iter().map(|(label, _)| label.clone()).collect(),
        seed: parts.first().map_or(0, |options| options.seed),
        interrupted: !matches!(end, End::Complete),
        simulated,
        reference: demands.reference.clone(),
        notes,
        disturbed,
    };
    let report = Report::from_samples(&samples, context);
    let written = writer::write_all(out, &report, &samples).inspect(|written| {
        // Those of an earlier run in the folder belong to no report any more.
        writer::remove_recordings(&written.raw, &recordings);
        remove_steps(&out.join(STEPS), &steps);
    });
    let place = written.as_ref().map_or(String::new(), |written| format!("\nreport: {}\n", written.html.display()));
    let shown = output::print(format_args!("{}{place}", table::terminal(&report, table::Screen::detect())));
    let unwritten = written.err().map(|source| match simulated {
        true => Failure::run(source),
        false => Failure::run(Unwritten { samples: out.join("raw").join(raw::JSON_LINES), source }),
    });
    if !matches!(end, End::Complete) {
        // A build server learns that the run did not come to its end.
        demands.tell(&report, None).unwrap_or_else(|failure| failure.tell());
    }
    match (end, unwritten) {
        (End::Failed(error), unwritten) => {
            // What ended the run comes last, and decides how the program ends.
            unwritten.into_iter().for_each(|failure| failure.tell());
            Err(Failure::run(error))
        }
        (_, Some(failure)) => Err(failure),
        (End::Interrupted, None) => Err(Failure::Interrupted),
        (End::Complete, None) => shown.and(demands.meet(&report)),
    }
}
