//! `stile run`: the virtual machines of a configuration file, from start to end.

mod served;

use super::args::RunArgs;
use super::ending::Ended;
use super::failure::Failure;
use super::guests::{Guests, Sinks, create, linux};
use super::printer::Printer;
use super::stats::Stats;
use super::terminal::Keyboard;
use super::{ending, ext, jail, output, pipe, small};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stile_assembly::watch::Watched;
use stile_config::Config;
use stile_host::open_kvm;
use stile_machine::linux::LinuxState;
use stile_machine::vm::VirtualMachine;
use stile_machine::vm::console::{STANDARD_OUTPUT, Sink};
use stile_node::Machine;
use stile_recording::{Header, Recorded, Recorder, recordable};
use stile_results::model::Params;
use stile_sched::{Domain, VcpuId};
use tracing::warn;

/// Time between two checks for the end of all VMs, Ctrl-C and the time limit.
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    match &args.socket {
        Some(socket) => served::run(args, socket),
        None => alone(args),
    }
}

/// Without a node.
fn alone(args: &RunArgs) -> Result<(), Failure> {
    let config = small::load(&args.file, args.policy.as_ref())?;
    let guests = Guests::open(&config, &args.file)?;
    if let Some(path) = &args.record {
        recordable(&config.policy).map_err(Failure::input)?;
        output::not_there("--record", path, args.force)?;
    }
    guests.suit_host(args.try_linux)?;
    raise_descriptors();
    let kvm = open_kvm().map_err(Failure::NoKvm)?;
    let _ext = ext::for_policies([&config.policy], config.host.pcpus.len())?;
    jail::of_run(args, &config)?;
    let interrupted = super::interrupt::on_interrupt_or_end()?;
    let unread = Arc::new(AtomicBool::new(false));
    pipe::tell_when_closed(&unread).map_err(Failure::run)?;
    let watched = Watched::new(&config).map_err(Failure::run)?;
    let domain = watched.domain();
    let printer = Printer::new();
    let mut stats = Stats::new(args, config.host.pcpus.len(), domain, &printer)?;
    let tell = Arc::new(|text: &str| warn!("{text}"));
    let sinks = Sinks { console: console(args, &config, stats.console())?, tell };
    let recorder = args.record.as_deref().map(|path| record(path, args, &config, &**domain)).transpose()?;
    let vms = create(&kvm, &config, &guests, domain, &sinks)?;
    let linux = linux(&vms);
    vms.iter().for_each(|vm| recorder.iter().for_each(|recorder| recorder.name(vm.vcpu_set())));
    let _watchdog = watched.watch(names(&vms), Box::new(|text| warn!("{text}"))).map_err(Failure::run)?;
    let keyboard = keyboard(args, &vms, &linux, &interrupted)?;
    jail::all_is_open();
    vms.iter().for_each(|vm| vm.vcpu_set().start());
    let ended_by_user = wait(&vms, [&interrupted, &unread], args.limit, &mut stats);
    // Whatever ends the run, guests are stopped and the recording is finished before anything is printed.
    vms.iter().for_each(|vm| vm.vcpu_set().stop());
    stats.clear();
    drop(keyboard);
    let hanging = ending::wait(&vms);
    let all: Vec<Ended> = vms.iter().filter_map(Ended::of).collect();
    let ended = ending::tell(&all, vms.len(), &printer);
    let recorded = recorder.map_or(Ok(()), finish);
    let told = recorded.and(ended_by_user).and_then(|by_user| {
        stats.finish(&vms)?;
        printer.finish()?;
        Ok(by_user)
    });
    if hanging.is_err() {
        // To free the VMs and their domain would be to wait for them.
        let failures = [told.err(), ended.err()];
        failures.into_iter().flatten().for_each(|failure| failure.tell());
        std::process::exit(1);
    }
    // Dropping the VMs tells what of their output was lost.
    drop(vms);
    drop(linux);
    match told? {
        _ if unread.load(Ordering::Relaxed) => Err(Failure::Unread),
        true => Err(Failure::Interrupted),
        false => ended,
    }
}

/// Raises the limit on open descriptors as far as this process may: the VMs share it.
pub(super) fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // If it is refused, the limit stays, and what needs a descriptor beyond it says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn record(path: &Path, args: &RunArgs, config: &Config, domain: &dyn Domain) -> Result<Recorder, Failure> {
    let workload = args.file.display().to_string();
    let header = Header::new(&config.policy, &config.host.pcpus, &workload, Params::default());
    let header = header.with_caps(stile_assembly::has_caps(config));
    Recorder::start(path, header, domain).map_err(Failure::input)
}

fn finish(recorder: Recorder) -> Result<(), Failure> {
    let Recorded { lost, .. } = recorder.finish().map_err(Failure::run)?;
    if lost > 0 {
        warn!("{lost} events came too fast to be recorded; `trace` and `why` have holes, `replay` ends there");
    }
    Ok(())
}

/// Chooses how the output of guests is written. It is unchanged if there is one VM and a user may type to it or its
/// output goes to a file. Otherwise each line follows the VM's name.
fn console(args: &RunArgs, config: &Config, lines_go_to: Sink) -> Result<Sink, Failure> {
    let alone = is_one_vm(config);
    if let Some(path) = &args.console {
        let cannot = |e| Failure::Input(miette::miette!("--console: cannot write {}: {e}", path.display()));
        let file = File::create(path).map_err(cannot)?;
        let place = path.display().to_string();
        return Ok(match alone {
            true => Sink::Raw { place, writer: Arc::new(Mutex::new(file)) },
            false => lines(place, file),
        });
    }
    let talks = alone && args.stats.is_none() && config.vms[0].kernel.is_some();
    let raw = || Sink::Raw { place: STANDARD_OUTPUT.to_owned(), writer: Arc::new(Mutex::new(io::stdout())) };
    Ok(if talks { raw() } else { lines_go_to })
}

fn is_one_vm(config: &Config) -> bool {
    config.vms.iter().map(|vm| vm.count).sum::<u32>() == 1
}

fn lines(place: String, file: File) -> Sink {
    let file = Mutex::new(file);
    let show = move |line: &str| writeln!(file.lock().unwrap_or_else(PoisonError::into_inner), "{line}");
    Sink::Lines { place, show: Arc::new(show) }
}

/// Gives the keyboard to a sole Linux guest that has the terminal.
fn keyboard(
    args: &RunArgs,
    vms: &[Machine],
    linux: &[Arc<LinuxState>],
    quit: &Arc<AtomicBool>,
) -> Result<Option<Keyboard>, Failure> {
    match (vms, linux) {
        ([_], [guest]) if args.console.is_none() && args.stats.is_none() => {
            Keyboard::lead_to(guest, quit).map(Some).map_err(Failure::run)
        }
        _ => Ok(None),
    }
}

/// Names of vCPUs: `VM/INDEX`.
fn names(vms: &[Machine]) -> HashMap<VcpuId, String> {
    let of_vm = |vm: &Machine| {
        let name = vm.vcpu_set().status().name().to_owned();
        vm.vcpu_set().ids().into_iter().enumerate().map(move |(index, id)| (id, format!("{name}/{index}")))
    };
    vms.iter().flat_map(of_vm).collect()
}

/// Waits for all VMs to end. Returns true if one of these flags ended the wait.
fn wait(vms: &[Machine], ended: [&AtomicBool; 2], limit: Option<f64>, stats: &mut Stats) -> Result<bool, Failure> {
    let start = Instant::now();
    while vms.iter().any(|vm| !vm.vcpu_set().status().has_ended()) {
        if ended.iter().any(|flag| flag.load(Ordering::Relaxed)) {
            return Ok(true);
        }
        if limit.is_some_and(|limit| start.elapsed().as_secs_f64() >= limit) {
            return Ok(false);
        }
        stats.look(vms)?;
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(false)
}
