//! `stile run`: the virtual machines of a configuration file, from start to end.

use super::args::RunArgs;
use super::stats::Stats;
use super::{Failure, small};
use crate::carrier;
use crate::config::{Config, ImageRef, VmConfig};
use crate::host::open_kvm;
use crate::net::{self, PortNumber, Switch};
use crate::recording::{Header, Recorded, Recorder, recordable};
use crate::report::model::Params;
use crate::vm::console::Sink;
use crate::vm::image::Image;
use crate::vm::layout::Layout;
use crate::vm::{Outcome, Spec, Vm};
use crate::watch::Watched;
use kvm_ioctls::Kvm;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stile_sched::domain::Attributes;
use stile_sched::{Domain, VcpuId};

/// How often the end of all VMs, Ctrl-C and the time limit are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The images of a configuration, in the order of its VMs.
pub(super) struct Images(Vec<Cow<'static, [u8]>>);

impl Images {
    /// Reads all files, before anything is started.
    pub(super) fn read(config: &Config) -> Result<Self, Failure> {
        let read = |vm: &VmConfig| match &vm.image {
            ImageRef::Builtin(name) => {
                let image = stile_guest_images::image(name).expect("the configuration was checked for known names");
                Ok(Cow::Borrowed(image))
            }
            ImageRef::Path(path) => std::fs::read(path).map(Cow::Owned).map_err(|e| {
                Failure::Input(miette::miette!("VM {}: cannot read image {}: {e}", vm.name.as_str(), path.display()))
            }),
        };
        config.vms.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Finds what is wrong with images and memory sizes without starting anything.
    pub(super) fn check(&self, config: &Config) -> Result<(), Failure> {
        for (vm, bytes) in config.vms.iter().zip(&self.0) {
            let name = vm.name.as_str();
            let image = Image::parse(bytes)
                .map_err(|e| Failure::Input(miette::miette!("VM {name}: image {}: {e}", vm.image)))?;
            Layout::new(vm.memory.bytes(), vm.vcpus, image.end()).map_err(|e| {
                let larger = "set `memory` to at least that";
                Failure::Input(miette::miette!(help = larger, "VM {name}: {e}"))
            })?;
        }
        Ok(())
    }
}

pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    let config = small::load(&args.file)?;
    let images = Images::read(&config)?;
    images.check(&config)?;
    if args.record.is_some() {
        recordable(&config.policy).map_err(Failure::input)?;
    }
    let kvm = open_kvm().map_err(Failure::NoKvm)?;
    let interrupted = super::compare::on_interrupt()?;
    let watched = Watched::new(&config).map_err(Failure::run)?;
    let domain = watched.domain();
    let recorder = args.record.as_deref().map(|path| record(path, args, &config, &**domain)).transpose()?;
    let mut stats = Stats::new(args, config.host.pcpus.len(), domain)?;
    let vms = create(&kvm, &config, &images, domain, &stats.console())?;
    vms.iter().for_each(|vm| recorder.iter().for_each(|recorder| recorder.name(vm)));
    let _watchdog = watched.watch(names(&vms), stats.voice()).map_err(Failure::run)?;
    vms.iter().for_each(Vm::start);
    let ended_by_user = wait(&vms, &interrupted, args.limit, &mut stats)?;
    vms.iter().for_each(Vm::stop);
    stats.clear();
    let failed = vms.iter().filter(|vm| !tell(vm)).count();
    if let Some(recorder) = recorder {
        finish(recorder)?;
    }
    stats.finish(&vms)?;
    if ended_by_user {
        return Err(Failure::Interrupted);
    }
    if failed > 0 {
        return Err(Failure::Run(miette::miette!("{failed} of {} VMs ended badly", vms.len())));
    }
    Ok(())
}

fn record(path: &Path, args: &RunArgs, config: &Config, domain: &dyn Domain) -> Result<Recorder, Failure> {
    let workload = args.file.display().to_string();
    let header = Header::new(&config.policy, &config.host.pcpus, &workload, Params::default());
    let header = header.with_caps(carrier::has_caps(config));
    Recorder::start(path, header, domain).map_err(Failure::run)
}

fn finish(recorder: Recorder) -> Result<(), Failure> {
    let Recorded { lost, .. } = recorder.finish().map_err(Failure::run)?;
    if lost > 0 {
        eprintln!(
            "warning: {lost} events came too fast to be recorded; `trace` and `why` have holes, `replay` ends there"
        );
    }
    Ok(())
}

fn create(
    kvm: &Kvm,
    config: &Config,
    images: &Images,
    domain: &Arc<dyn Domain>,
    console: &Sink,
) -> Result<Vec<Vm>, Failure> {
    let switch = Switch::new();
    let mut ports = 1..=u16::MAX;
    let mut vms = Vec::new();
    for (vm, image) in config.vms.iter().zip(&images.0) {
        for name in vm.instance_names() {
            let port = if vm.net { ports.next().and_then(PortNumber::new) } else { None };
            let spec = Spec {
                name: &name,
                image,
                vcpus: vm.vcpus,
                memory: vm.memory.bytes(),
                attributes: Attributes { group: carrier::group(vm), ..carrier::attributes(vm) },
                cmdline: &vm.cmdline,
                console: console.clone(),
                device: None,
            };
            vms.push(create_one(kvm, &spec, domain, port.map(|port| (&switch, port)))?);
        }
    }
    Ok(vms)
}

fn create_one(
    kvm: &Kvm,
    spec: &Spec<'_>,
    domain: &Arc<dyn Domain>,
    port: Option<(&Arc<Switch>, PortNumber)>,
) -> Result<Vm, Failure> {
    let made = match port {
        Some((switch, port)) => net::create_vm(kvm, spec, Arc::clone(domain), switch, port),
        None => Vm::create(kvm, spec, Arc::clone(domain)),
    };
    made.map_err(|e| Failure::Run(miette::Report::from_err(e).wrap_err(format!("VM {}", spec.name))))
}

/// What vCPUs are called: VM/INDEX.
fn names(vms: &[Vm]) -> HashMap<VcpuId, String> {
    let of_vm = |vm: &Vm| {
        let name = vm.state().name().to_owned();
        vm.ids().into_iter().enumerate().map(move |(index, id)| (id, format!("{name}/{index}")))
    };
    vms.iter().flat_map(of_vm).collect()
}

/// Waits for all VMs to end; true if the user ended the wait.
fn wait(vms: &[Vm], interrupted: &AtomicBool, limit: Option<f64>, stats: &mut Stats) -> Result<bool, Failure> {
    let start = Instant::now();
    while vms.iter().any(|vm| !vm.state().has_ended()) {
        if interrupted.load(Ordering::Relaxed) {
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

/// Says how a VM ended; true if well.
fn tell(vm: &Vm) -> bool {
    let outcome = vm.wait();
    let well = matches!(outcome, Outcome::Exit(0) | Outcome::Stopped);
    for (name, value) in vm.state().results() {
        println!("[{}] {name} = {value}", vm.state().name());
    }
    if well {
        println!("[{}] {outcome}", vm.state().name());
    } else {
        eprintln!("[{}] {outcome}", vm.state().name());
    }
    well
}
