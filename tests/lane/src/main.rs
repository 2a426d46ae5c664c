//! The hardware lane: runs stile on KVM with hardware virtualisation, on a machine that has none.
//!
//! QEMU emulates a machine with AMD's SVM, or Bochs one with Intel's VMX, both with nested paging. On either Debian's
//! stock kernel gives a working `/dev/kvm`; the tests of `tests/lane/tests` run there with this tree's stile. What they
//! see is real, except for time. QEMU is slow and uneven. Bochs counts instructions, and each takes equally long. So
//! tests here assert what happens and never how fast.
//!
//! 1. The programs are built, as `cargo test` builds them, and packages fetched into the user's cache.
//! 2. An initramfs is made of them: the *outer system*, which only runs the tests ([`outer`]).
//! 3. The emulator boots it ([`emulator`]). What it prints on its first serial line is shown. On its second serial line
//!    it reports which test begins and how it ended ([`machine`], [`results`]). A test beyond its limit is killed, and
//!    the whole machine if that does not help.
//!
//! A test is a script with its description, its limit and its needs besides stile ([`script`]).

mod args;
mod emulator;
mod machine;
mod measure;
mod outer;
mod programs;
mod results;
mod script;
mod suites;

use args::Args;
use clap::Parser;
use emulator::{Emulator, Kind, Program, ProgramError};
use machine::{Machine, MachineError};
use measure::Measurement;
use outer::{Contents, OuterError};
use programs::Profile;
use results::Verdict;
use script::{Need, Script};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use stile_linux_images::Cache;
use stile_linux_images::cache::CacheError;
use suites::Suite;

/// Names, separated by commas, of required parts. If one is missing, the lane fails instead of being skipped.
const REQUIRE: &str = "STILE_REQUIRE";

fn main() -> ExitCode {
    let args = Args::parse();
    let measurement = args.measurement();
    let tests = || script::all(Path::new(env!("CARGO_MANIFEST_DIR"))).and_then(|all| script::chosen(all, &args.names));
    let scripts = match measurement.as_ref().map_or_else(tests, |measurement| Ok(measurement.scripts())) {
        Ok(scripts) => scripts,
        Err(error) => {
            eprintln!("hardware-lane: {}", chain(&error));
            return ExitCode::from(2);
        }
    };
    if args.list {
        scripts.iter().for_each(|script| println!("{:<14} {}", script.name, script.description));
        return ExitCode::SUCCESS;
    }
    let measurement = measurement.as_ref();
    let made = prepare(&scripts, &args, measurement);
    match made.and_then(|(machine, ended)| run(&machine, &scripts, args.repeat, measurement, &ended)) {
        Ok(code) => code,
        Err(error) if error.is_absence() && !required() => {
            eprintln!("\nSKIPPED hardware-lane: {}", chain(&error));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("hardware-lane: {}", chain(&error));
            ExitCode::FAILURE
        }
    }
}

/// Why the lane could not run.
#[derive(Debug, thiserror::Error)]
enum LaneError {
    #[error(transparent)]
    Emulator(#[from] emulator::ProgramError),
    #[error(transparent)]
    Cache(#[from] CacheError),
    #[error(transparent)]
    Outer(#[from] OuterError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Measure(#[from] measure::MeasureError),
    #[error("cannot see to Ctrl-C")]
    Signals(#[source] std::io::Error),
}

impl LaneError {
    /// Whether something is missing that a machine need not have.
    fn is_absence(&self) -> bool {
        match self {
            Self::Emulator(error) => !matches!(error, ProgramError::Incomplete),
            Self::Outer(error) => error.is_absence(),
            Self::Cache(_) | Self::Machine(_) | Self::Measure(_) | Self::Signals(_) => false,
        }
    }
}

fn required() -> bool {
    std::env::var(REQUIRE).unwrap_or_default().split(',').any(|name| name.trim() == "lane")
}

/// Makes a machine for these tests, and a flag that a signal of the user sets from now on. A signal must not end the
/// program at once: the machine's files are large, and have to be removed.
fn prepare(
    scripts: &[Script],
    args: &Args,
    measurement: Option<&Measurement>,
) -> Result<(Machine, Arc<AtomicBool>), LaneError> {
    let kind = args.machine;
    let mut tell = |what: &str| eprintln!("hardware-lane: {what}");
    let program = program(args, &mut tell)?;
    let needs_qemu = scripts.iter().any(|script| script.needs.contains(&Need::Qemu));
    let qemu = if needs_qemu { Some(Kind::Svm.program().map_err(ProgramError::Missing)?) } else { None };
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended)).map_err(LaneError::Signals)?;
    }
    // On a machine whose time is instructions, a program with assertions takes several times as long.
    let as_users = args.release || kind == Kind::Vmx || measurement.is_some();
    let profile = if as_users { Profile::Release } else { Profile::Debug };
    let contents = Contents {
        kind,
        outer: args.outer,
        scripts,
        profile,
        features: args.features.as_deref(),
        qemu: qemu.as_deref(),
        has_disk: measurement.is_some(),
        guest_kernel: args.kernel.as_deref(),
    };
    let system = outer::make(&contents, &mut tell)?;
    // Emulated CPUs that run at the same time are less steady, and without that nothing can be measured.
    let emulator = Emulator { kind, program, ips: args.ips, on_one_cpu: measurement.is_none() };
    let disk = measurement.map(|_| system.folder().join("disk"));
    let ahead = measurement.and_then(|measurement| measurement.seeds.first().copied()).unwrap_or_default();
    Ok((Machine { emulator, system, disk, ahead }, ended))
}

/// The emulator: the installed one, or QEMU of another suite.
fn program(args: &Args, tell: &mut dyn FnMut(&str)) -> Result<Program, LaneError> {
    if args.machine == Kind::Vmx || args.qemu == Suite::Own {
        return Ok(Program::installed(args.machine.program().map_err(ProgramError::Missing)?));
    }
    let cache = Cache::of_user()?;
    let archive = args.qemu.archive(&cache, tell).map_err(ProgramError::Package)?;
    Ok(Program::unpacked(&archive, &cache, tell)?)
}

fn run(
    machine: &Machine,
    scripts: &[Script],
    times: u32,
    measurement: Option<&Measurement>,
    ended: &AtomicBool,
) -> Result<ExitCode, LaneError> {
    let (mut passed, mut failed) = (0, 0);
    for _ in 0..times {
        let verdicts = verdicts(scripts, |rest| -> Result<_, LaneError> {
            let Some((measurement, disk)) = measurement.zip(machine.disk.as_deref()) else {
                return Ok(machine.run(rest, ended)?);
            };
            measure::empty_disk(disk)?;
            let verdicts = machine.run(rest, ended);
            measurement.bring(disk, machine.system.stile())?;
            Ok(verdicts?)
        })?;
        println!();
        for (script, verdict) in scripts.iter().zip(&verdicts) {
            println!("{:<16} {verdict}", script.name);
        }
        let well = verdicts.iter().filter(|verdict| verdict.is_well()).count();
        passed += well;
        failed += verdicts.len() - well;
    }
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The most machines that may end or hang under one test: faults of the emulator (docs/adr/0019) also end whole
/// machines.
const MACHINES: u32 = 3;

/// Returns the verdict on each test, on as many machines as it takes. `run` runs tests on a new machine.
fn verdicts<E>(
    scripts: &[Script],
    mut run: impl FnMut(&[Script]) -> Result<Vec<Verdict>, E>,
) -> Result<Vec<Verdict>, E> {
    let mut all: Vec<Verdict> = Vec::new();
    // The verdict on the first of the tests that are left.
    let mut number = 1;
    while let rest @ [_, ..] = &scripts[all.len()..] {
        let mut verdicts = run(rest)?;
        verdicts[0] = verdicts[0].clone().on_machine(number);
        match verdicts.iter().position(|verdict| matches!(verdict, Verdict::Ended | Verdict::Hung)) {
            Some(0) if number == MACHINES => {}
            Some(0) => {
                verdicts.clear();
                number += 1;
            }
            Some(at) => {
                verdicts.truncate(at);
                number = 2;
            }
            None => {}
        }
        all.extend(verdicts);
    }
    Ok(all)
}

/// An error and what caused it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const WELL: Verdict = Verdict::Passed(Duration::from_secs(1));

    /// The verdicts on three tests on machines that give these verdicts, one after the other, and the number of tests
    /// that each machine had to run.
    fn outcome(machines: &[&[Verdict]]) -> (Vec<Verdict>, Vec<usize>) {
        let script = |name: &str| Script {
            name: name.to_owned(),
            description: String::new(),
            limit: Duration::from_secs(1),
            needs: Vec::new(),
            text: String::new(),
        };
        let mut had = Vec::new();
        let all = verdicts(&["a", "b", "c"].map(script), |rest| {
            had.push(rest.len());
            Ok::<_, MachineError>(machines[had.len() - 1].to_vec())
        });
        (all.unwrap(), had)
    }

    #[test]
    fn a_test_whose_machine_ended_or_hung_begins_once_more_with_those_after_it() {
        let again = Verdict::PassedAfterAll(Duration::from_secs(1), 2);
        for end in [Verdict::Ended, Verdict::Hung] {
            let machines: [&[Verdict]; 2] = [&[WELL, end, Verdict::NotRun], &[WELL, WELL]];
            assert_eq!(outcome(&machines), (vec![WELL, again.clone(), WELL], vec![3, 2]));
        }
    }

    #[test]
    fn a_test_under_which_every_machine_ends_has_failed_and_those_after_it_are_not_run() {
        let lost: &[Verdict] = &[Verdict::Ended, Verdict::NotRun, Verdict::NotRun];
        assert_eq!(outcome(&[lost; 3]), (lost.to_vec(), vec![3; 3]));
    }

    #[test]
    fn what_failed_or_cannot_be_killed_is_not_tried_on_another_machine() {
        let machine = [Verdict::Failed(1), Verdict::Lost, Verdict::NotRun];
        assert_eq!(outcome(&[&machine]), (machine.to_vec(), vec![3]));
    }
}
