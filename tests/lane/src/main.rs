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

mod emulator;
mod machine;
mod outer;
mod programs;
mod results;
mod script;
mod suites;

use clap::Parser;
use emulator::{Emulator, Kind};
use machine::{Machine, MachineError};
use outer::{Contents, OuterError};
use programs::Profile;
use results::Verdict;
use script::{Need, Script};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use suites::Suite;

/// Runs tests of stile on an emulated machine whose KVM has hardware virtualisation
#[derive(Debug, Parser)]
#[command(name = "hardware-lane")]
struct Args {
    /// The tests; none: all
    names: Vec<String>,
    /// List the tests, and run none
    #[arg(long)]
    list: bool,
    /// Run the tests this many times, each time on a machine started anew
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// The machine to emulate
    #[arg(long, value_enum, default_value_t = Kind::Svm)]
    machine: Kind,
    /// The Debian whose stock kernel the machine runs
    #[arg(long, value_enum, default_value_t = Suite::Own)]
    outer: Suite,
    /// Instructions that each CPU of the machine `vmx` makes in a second of its time
    #[arg(long, value_name = "N", default_value_t = 100_000_000, value_parser = clap::value_parser!(u32).range(10_000_000..=2_000_000_000))]
    ips: u32,
    /// Build stile and its tests as users do, and not as `cargo test` does; always so for the machine `vmx`
    #[arg(long)]
    release: bool,
    /// Boot this kernel in Linux guests instead of Debian's
    #[arg(long, value_name = "FILE")]
    kernel: Option<PathBuf>,
}

/// Names, separated by commas, of required parts. If one is missing, the lane fails instead of being skipped.
const REQUIRE: &str = "STILE_REQUIRE";

fn main() -> ExitCode {
    let args = Args::parse();
    let scripts =
        match script::all(Path::new(env!("CARGO_MANIFEST_DIR"))).and_then(|all| script::chosen(all, &args.names)) {
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
    match prepare(&scripts, &args).and_then(|(machine, ended)| run(&machine, &scripts, args.repeat, &ended)) {
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
    Missing(#[from] emulator::Missing),
    #[error(transparent)]
    Outer(#[from] OuterError),
    #[error(transparent)]
    Machine(#[from] machine::MachineError),
    #[error("cannot see to Ctrl-C")]
    Signals(#[source] std::io::Error),
}

impl LaneError {
    /// Whether something is missing that a machine need not have.
    fn is_absence(&self) -> bool {
        match self {
            Self::Missing(_) => true,
            Self::Outer(error) => error.is_absence(),
            Self::Machine(_) | Self::Signals(_) => false,
        }
    }
}

fn required() -> bool {
    std::env::var(REQUIRE).unwrap_or_default().split(',').any(|name| name.trim() == "lane")
}

/// Makes a machine for these tests, and a flag that a signal of the user sets from now on. A signal must not end the
/// program at once: the machine's files are large, and have to be removed.
fn prepare(scripts: &[Script], args: &Args) -> Result<(Machine, Arc<AtomicBool>), LaneError> {
    let kind = args.machine;
    let program = kind.program()?;
    let needs_qemu = scripts.iter().any(|script| script.needs.contains(&Need::Qemu));
    let qemu = if needs_qemu { Some(Kind::Svm.program()?) } else { None };
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&ended)).map_err(LaneError::Signals)?;
    }
    // On a machine whose time is instructions, a program with assertions takes several times as long.
    let profile = if args.release || kind == Kind::Vmx { Profile::Release } else { Profile::Debug };
    let contents = Contents {
        kind,
        outer: args.outer,
        scripts,
        profile,
        qemu: qemu.as_deref(),
        guest_kernel: args.kernel.as_deref(),
    };
    let system = outer::make(&contents, &mut |what| eprintln!("hardware-lane: {what}"))?;
    let emulator = Emulator { kind, program, ips: args.ips };
    Ok((Machine { emulator, system }, ended))
}

fn run(machine: &Machine, scripts: &[Script], times: u32, ended: &AtomicBool) -> Result<ExitCode, LaneError> {
    let (mut passed, mut failed) = (0, 0);
    for _ in 0..times {
        let verdicts = verdicts(scripts, |rest| machine.run(rest, ended))?;
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

/// The most machines that may end under one test: faults of the emulator (docs/adr/0019) also end whole machines.
const MACHINES: u32 = 3;

/// Returns the verdict on each test, on as many machines as it takes. `run` runs tests on a new machine.
fn verdicts(
    scripts: &[Script],
    mut run: impl FnMut(&[Script]) -> Result<Vec<Verdict>, MachineError>,
) -> Result<Vec<Verdict>, MachineError> {
    let mut all: Vec<Verdict> = Vec::new();
    // The verdict on the first of the tests that are left.
    let mut number = 1;
    while let rest @ [_, ..] = &scripts[all.len()..] {
        let mut verdicts = run(rest)?;
        verdicts[0] = verdicts[0].clone().on_machine(number);
        match verdicts.iter().position(|verdict| *verdict == Verdict::Ended) {
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
            Ok(machines[had.len() - 1].to_vec())
        });
        (all.unwrap(), had)
    }

    #[test]
    fn a_test_whose_machine_ended_begins_once_more_with_those_after_it() {
        let again = Verdict::PassedAfterAll(Duration::from_secs(1), 2);
        let machines: [&[Verdict]; 2] = [&[WELL, Verdict::Ended, Verdict::NotRun], &[WELL, WELL]];
        assert_eq!(outcome(&machines), (vec![WELL, again, WELL], vec![3, 2]));
    }

    #[test]
    fn a_test_under_which_every_machine_ends_has_failed_and_those_after_it_are_not_run() {
        let lost: &[Verdict] = &[Verdict::Ended, Verdict::NotRun, Verdict::NotRun];
        assert_eq!(outcome(&[lost; 3]), (lost.to_vec(), vec![3; 3]));
    }

    #[test]
    fn what_failed_or_hung_is_not_tried_on_another_machine() {
        let machine = [Verdict::Failed(1), Verdict::Lost, Verdict::NotRun];
        assert_eq!(outcome(&[&machine]), (machine.to_vec(), vec![3]));
    }
}
