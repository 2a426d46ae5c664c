//! The jail of a run and of a comparison: what each may use, and how it is entered.

use super::args::RunArgs;
use super::failure::Failure;
use super::terminal;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use stile_compare::{Options, stay_outside};
use stile_config::{Config, GuestConfig, ImageRef, VmConfig};
use stile_host::memory;
use stile_jail::{Jail, Kind, Missing, Place};
use stile_sched::domain::on_thread_start;
use tracing::warn;

/// Descriptors of a run besides those of its VMs: files, timers, recordings, a reserve.
const DESCRIPTORS_OF_RUN: u64 = 512;
/// Descriptors of a Linux guest besides those of its vCPUs: 256 connections, 32 waiting programs, two events for each
/// queue of its devices, a reserve.
const DESCRIPTORS_OF_LINUX: u64 = 512;
/// Descriptors of a unikernel besides those of its vCPUs.
const DESCRIPTORS_OF_UNIKERNEL: u64 = 16;
/// Descriptors of a vCPU: KVM's, a counter, an event, a reserve.
const DESCRIPTORS_OF_VCPU: u64 = 4;
/// A comparison switches autogroups off, and on again at its end.
const AUTOGROUPS: &str = "/proc/sys/kernel/sched_autogroup_enabled";

/// The option that leaves the jail out.
const WITHOUT: &str = "--no-jail: nothing bounds what this process can do if a guest takes it over: it keeps its files, \
                       system calls and capabilities";

/// Enters the jail of `stile run`, before its first thread starts.
pub(super) fn of_run(args: &RunArgs, config: &Config) -> Result<(), Failure> {
    if args.no_jail {
        warn!("{WITHOUT}");
        return Ok(());
    }
    let outputs = [&args.record, &args.stats_json, &args.console];
    let outputs = outputs.into_iter().flatten().map(|path| output(path));
    let jail = Jail {
        places: outputs.chain(config.vms.iter().flat_map(of_vm)).collect(),
        sockets: config.vms.iter().any(|vm| vm.vsock.is_some()),
        interfaces: config.vms.iter().any(|vm| vm.tap.is_some()),
        descriptors: Some(descriptors(config)),
        ..Jail::default()
    };
    enter(jail).map(drop)
}

/// What a node may use.
pub(super) struct OfNode<'a> {
    pub(super) config: &'a Config,
    /// Folders from which its VMs may have files.
    pub(super) files: &'a [PathBuf],
    /// The folder of recordings.
    pub(super) recordings: Option<&'a Path>,
    /// Its socket.
    pub(super) socket: &'a Path,
    /// It has made the socket, and needs the folder to remove it.
    pub(super) is_own: bool,
}

impl OfNode<'_> {
    /// Enters the jail of a node, before its first thread starts. Returns what the kernel does not offer.
    pub(super) fn enter(&self, no_jail: bool) -> Result<Vec<String>, Failure> {
        if no_jail {
            warn!("{WITHOUT}");
            return Ok(vec!["--no-jail".to_owned()]);
        }
        let of_files = |folder: &PathBuf| [Place::Folder(folder.clone()), Place::Sockets(folder.clone())];
        let mut places: Vec<Place> = self.files.iter().flat_map(of_files).collect();
        places.extend(self.config.vms.iter().flat_map(of_vm));
        places.extend(self.recordings.map(|folder| Place::Folder(folder.to_owned())));
        places.extend(self.is_own.then(|| Place::Sockets(folder_of(self.socket))));
        places.extend(stile_linux_images::Cache::of_user().ok().map(|cache| Place::Read(cache.root().to_owned())));
        let interfaces = self.config.vms.iter().any(|vm| vm.tap.is_some());
        enter(Jail { places, sockets: true, interfaces, ..Jail::default() })
    }
}

/// Enters the jail of `stile compare` whose report goes to `out`, before its first thread starts.
pub(super) fn of_comparison(no_jail: bool, parts: &[Options], out: &Path, junit: Option<&Path>) -> Result<(), Failure> {
    if no_jail {
        warn!("{WITHOUT}");
        return Ok(());
    }
    let children = parts.iter().any(|part| part.linux.as_ref().is_some_and(|linux| linux.peer.is_some()));
    if children {
        stay_outside().map_err(Failure::run)?;
    }
    // If it fails, making the journal tells.
    let _ = std::fs::create_dir_all(out);
    let linux = parts.iter().filter_map(|part| part.linux.as_ref());
    let images = linux.flat_map(|linux| [&linux.kernel, &linux.initrd]).cloned().map(Place::Read);
    let mut places = vec![Place::Folder(out.to_owned()), Place::Write(AUTOGROUPS.into())];
    // It is made at the end, if the comparison gets there.
    places.extend(junit.map(|file| Place::NewFiles(folder_of(file))));
    places.extend(images);
    memory::open_files();
    enter(Jail { places, children, ..Jail::default() }).map(drop)
}

/// The first thread has opened all that a run needs.
pub(super) fn all_is_open() {
    stile_jail::narrow(Kind::Control);
}

/// Returns what the kernel does not offer, which is told as well.
fn enter(jail: Jail) -> Result<Vec<String>, Failure> {
    on_thread_start(|| stile_jail::narrow(Kind::Carrier));
    let jail = Jail { without_terminal: !stile_jail::takes_keys(), before_end: Some(terminal::put_back), ..jail };
    let missing = jail.enter().map_err(Failure::run)?;
    for part in &missing {
        let lost = match part {
            Missing::Landlock => "the process keeps access to all files of its user",
            Missing::Filters => "its threads can make any system call",
        };
        warn!("the jail is incomplete: {part}; {lost}");
    }
    Ok(missing.iter().map(ToString::to_string).collect())
}

/// A file that the run will write. It is made now if it is not there, so that there is a right to this file alone and
/// not to its folder.
fn output(path: &Path) -> Place {
    // If it fails, opening it tells.
    let _ = OpenOptions::new().write(true).create_new(true).open(path);
    Place::Write(path.to_owned())
}

/// The files of a VM.
fn of_vm(vm: &VmConfig) -> Vec<Place> {
    let mut places = Vec::new();
    match vm.guest() {
        GuestConfig::Unikernel(ImageRef::Path(path)) => places.push(Place::Read(path.clone())),
        GuestConfig::Unikernel(ImageRef::Builtin(_)) => {}
        GuestConfig::Linux { kernel, initrd } => {
            let files = [Some(kernel), initrd].into_iter().flatten();
            places.extend(files.map(|file| Place::Read(file.as_ref().to_owned())));
        }
    }
    places.extend(vm.disk.as_ref().map(|disk| {
        let path = disk.path.as_ref().to_owned();
        if disk.read_only { Place::Read(path) } else { Place::Write(path) }
    }));
    places.extend(vm.tap.as_ref().map(|_| Place::Write("/dev/net/tun".into())));
    places.extend(vm.vsock.as_ref().map(|path| Place::Sockets(folder_of(path.as_ref()))));
    places
}

fn folder_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// More descriptors than the VMs of a configuration can use.
fn descriptors(config: &Config) -> u64 {
    let of_vm = |vm: &VmConfig| {
        let own = if vm.kernel.is_some() { DESCRIPTORS_OF_LINUX } else { DESCRIPTORS_OF_UNIKERNEL };
        u64::from(vm.count) * (own + DESCRIPTORS_OF_VCPU * u64::from(vm.vcpus))
    };
    DESCRIPTORS_OF_RUN + config.vms.iter().map(of_vm).sum::<u64>()
}
