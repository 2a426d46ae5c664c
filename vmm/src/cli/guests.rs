//! The images of a configuration's VMs: read and checked before anything starts, and made into VMs.

use super::failure::Failure;

use kvm_ioctls::Kvm;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use stile_config::{Config, GuestConfig, ImageRef, Name, PolicyConfig, VmConfig, place_of};
use stile_host::Backend;
use stile_linux_images::{Cache, ImageError, checks};
use stile_machine::devices::block::Disk;
use stile_machine::devices::net::{PortNumber, Switch, Tap};
use stile_machine::devices::virtio::Tell;
use stile_machine::devices::vsock::HostSocket;
use stile_machine::linux::devices::{self, DeviceConfig, Unavailable};
use stile_machine::linux::{self, LinuxState, LinuxVm, Payload, PayloadError};
use stile_machine::unikernel;
use stile_machine::unikernel::image::Image;
use stile_machine::unikernel::layout::Layout;
use stile_machine::unikernel::{Spec, Vm};
use stile_machine::vm::console::Sink;
use stile_machine::vm::{HostFeatures, VirtualMachine};
use stile_sched::Domain;
use stile_sched::attributes::Attributes;
use tracing::warn;

/// The image that one `[[vm]]` boots.
enum Guest {
    Unikernel(Cow<'static, [u8]>),
    Linux(Box<Payload>),
}

/// The images that the VMs of a configuration boot, in their order.
pub(super) struct Guests(Vec<Guest>);

impl Guests {
    /// Opens all files, and finds mistakes in them and in memory sizes, without starting anything. `file` is the
    /// configuration's path.
    pub(super) fn open(config: &Config, file: &Path) -> Result<Self, Failure> {
        let open = |(index, vm): (usize, &VmConfig)| {
            open(vm).map_err(|Unfit { key, wrong, help }| {
                let place = place_of(file, index, key).map(|place| format!("{place}: ")).unwrap_or_default();
                let message = format!("{place}VM {}: {wrong}", vm.name.as_str());
                Failure::Input(match help {
                    Some(help) => miette::miette!(help = help, "{message}"),
                    None => miette::miette!("{message}"),
                })
            })
        };
        config.vms.iter().enumerate().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Refuses Linux where it is known not to run, unless the user wants to try.
    pub(super) fn suit_host(&self, try_anyway: bool) -> Result<(), Failure> {
        let has_linux = self.0.iter().any(|guest| matches!(guest, Guest::Linux(_)));
        if has_linux { linux_runs_here(try_anyway) } else { Ok(()) }
    }
}

/// Text that says where Linux guests run, and how to try elsewhere.
const ELSEWHERE: &str = "use a host with VMX or SVM, or run it in scripts/hardware-lane, which emulates one; \
                         --try-linux tries it here all the same";

/// Returns the reason why Linux guests do not run here, if they do not.
fn unsuited() -> Option<&'static str> {
    (stile_host::backend() == Backend::Pvm).then_some(
        "Linux comes no further than its init on this host: its KVM is kvm_pvm, which runs guests without hardware \
         virtualisation and only carries programs at CPL 3",
    )
}

/// Refuses Linux guests where they are known not to run, unless the user wants to try.
pub(super) fn linux_runs_here(try_anyway: bool) -> Result<(), Failure> {
    match unsuited() {
        Some(why) if try_anyway => warn!("{why}"),
        Some(why) => return Err(Failure::Unsuited(miette::miette!(help = ELSEWHERE, "{why}"))),
        None => {}
    }
    Ok(())
}

/// A guest that its VM cannot boot.
struct Unfit {
    /// The key of the VM that names the image.
    key: &'static str,
    wrong: String,
    help: Option<String>,
}

/// Opens the image of a VM and checks it.
fn open(vm: &VmConfig) -> Result<Guest, Unfit> {
    match vm.guest() {
        GuestConfig::Unikernel(image) => unikernel(vm, image).map(Guest::Unikernel),
        GuestConfig::Linux { kernel, initrd } => {
            let initrd: Option<&Path> = initrd.map(AsRef::as_ref);
            let cache = Cache::of_user().ok();
            for (key, file) in [("kernel", Some(kernel.as_ref())), ("initrd", initrd)] {
                let Some(file) = file else { continue };
                let unfit = |e: ImageError| Unfit { key, wrong: e.to_string(), help: None };
                checks::check_file(file, cache.as_ref()).map_err(unfit)?;
            }
            let opened = Payload::open(kernel.as_ref(), initrd, &vm.cmdline, vm.memory().bytes());
            let unfit = |e: PayloadError| Unfit { key: key_of(&e), wrong: e.to_string(), help: Some(e.remedy()) };
            opened.map(Box::new).map(Guest::Linux).map_err(unfit)
        }
    }
}

/// The key of a Linux guest that a mistake concerns.
fn key_of(error: &PayloadError) -> &'static str {
    match error {
        PayloadError::Kernel { .. } => "kernel",
        PayloadError::Initrd { .. } | PayloadError::TooLargeInitrd { .. } => "initrd",
        PayloadError::TooLittleMemory { .. } => "memory",
        PayloadError::TooLongCmdline { .. } | PayloadError::OddCmdline(_) => "cmdline",
    }
}

fn unikernel(vm: &VmConfig, image: &ImageRef) -> Result<Cow<'static, [u8]>, Unfit> {
    let unfit = |wrong: String| Unfit { key: "image", wrong, help: None };
    let bytes = match image {
        ImageRef::Builtin(name) => {
            Cow::Borrowed(stile_guest_images::image(name).expect("the configuration was checked for known names"))
        }
        ImageRef::Path(path) => {
            Cow::Owned(std::fs::read(path).map_err(|e| unfit(format!("cannot read image {}: {e}", path.display())))?)
        }
    };
    let parsed = Image::parse(&bytes).map_err(|e| unfit(format!("image {image}: {e}")))?;
    Layout::new(vm.memory().bytes(), vm.vcpus, parsed.end()).map_err(|e| {
        let help = Some("set `memory` to at least that".to_owned());
        Unfit { key: "memory", wrong: e.to_string(), help }
    })?;
    Ok(bytes)
}

/// The VMs of a configuration.
#[derive(Default)]
pub(super) struct Vms {
    /// All, in order.
    pub(super) all: Vec<Box<dyn VirtualMachine>>,
    /// The Linux guests among them.
    pub(super) linux: Vec<Arc<LinuxState>>,
}

impl Vms {
    /// Makes the VMs. They do not run yet.
    pub(super) fn create(
        kvm: &Kvm,
        config: &Config,
        guests: &Guests,
        domain: &Arc<dyn Domain>,
        sinks: &Sinks,
    ) -> Result<Self, Failure> {
        let halt_poll = config.halt_poll();
        let policy = stile_assembly::carried_out(&config.policy);
        let mut maker = Maker { kvm, domain, sinks, policy, halt_poll, networks: HashMap::new() };
        let mut vms = Self::default();
        for (vm, guest) in config.vms.iter().zip(&guests.0) {
            for name in vm.instance_names() {
                match guest {
                    Guest::Unikernel(image) => vms.all.push(Box::new(maker.unikernel(&name, vm, image)?)),
                    Guest::Linux(payload) => {
                        let linux = maker.linux(&name, vm, payload)?;
                        vms.linux.push(Arc::clone(linux.state()));
                        vms.all.push(Box::new(linux));
                    }
                }
            }
        }
        Ok(vms)
    }
}

/// Where the output of VMs goes.
pub(super) struct Sinks {
    /// Output of guests.
    pub(super) console: Sink,
    /// Messages about devices that are turned off.
    pub(super) tell: Tell,
}

/// A network of the configuration: a switch of its own, so that no frame reaches another.
struct Network {
    switch: Arc<Switch>,
    /// Number of ports in use.
    ports: u16,
}

impl Default for Network {
    fn default() -> Self {
        Self { switch: Switch::new(), ports: 0 }
    }
}

/// The common parameters for making all VMs of a configuration.
struct Maker<'a> {
    kvm: &'a Kvm,
    domain: &'a Arc<dyn Domain>,
    sinks: &'a Sinks,
    /// With the mechanism that carries it out.
    policy: PolicyConfig,
    halt_poll: Option<Duration>,
    networks: HashMap<&'a Name, Network>,
}

impl<'a> Maker<'a> {
    fn unikernel(&mut self, name: &str, vm: &'a VmConfig, image: &[u8]) -> Result<Vm, Failure> {
        let port = self.port(vm)?;
        let spec = Spec {
            name,
            image,
            vcpus: vm.vcpus,
            memory: vm.memory().bytes(),
            attributes: attributes(vm),
            cmdline: &vm.cmdline,
            console: self.sinks.console.clone(),
            device: None,
        };
        let domain = Arc::clone(self.domain);
        let made = match port {
            Some((switch, port)) => unikernel::create_on_switch(self.kvm, &spec, domain, &switch, port),
            None => Vm::create(self.kvm, &spec, domain),
        };
        made.map_err(|e| cannot_make(name, e))
    }

    /// The next port of the VM's network, if it names one.
    fn port(&mut self, vm: &'a VmConfig) -> Result<Option<(Arc<Switch>, PortNumber)>, Failure> {
        let Some(name) = &vm.network else { return Ok(None) };
        let network = self.networks.entry(name).or_default();
        network.ports = network.ports.saturating_add(1);
        let port = PortNumber::new(network.ports).ok_or_else(|| {
            let help = "name another network in some of the VMs";
            Failure::Input(miette::miette!(help = help, "network {name} has more than {} VMs", PortNumber::MAX))
        })?;
        if let Some(address) = vm.ipv4 {
            network.switch.pin(port, address.get());
        }
        Ok(Some((Arc::clone(&network.switch), port)))
    }

    fn linux(&mut self, name: &str, vm: &'a VmConfig, payload: &Payload) -> Result<LinuxVm, Failure> {
        let console = self.sinks.console.clone();
        let port = self.port(vm)?;
        let devices = self
            .devices(name, vm, port)
            .and_then(devices::prepare)
            .map_err(|e| Failure::Input(miette::miette!(help = e.remedy().to_owned(), "VM {name}: {e}")))?;
        let attributes = attributes(vm);
        let (interrupts, halt_poll) = (vm.interrupts.under(&self.policy), self.halt_poll);
        let shown = HostFeatures { nested: vm.nested, counters: vm.counters };
        let vcpus = vm.vcpus;
        let spec = linux::Spec { name, payload, vcpus, attributes, interrupts, halt_poll, shown, console, devices };
        LinuxVm::create(self.kvm, spec, Arc::clone(self.domain)).map_err(|e| cannot_make(name, e))
    }

    /// The devices that a VM asks for. What they need of the host is opened here, before there is a VM.
    fn devices<'n>(
        &self,
        name: &'n str,
        vm: &VmConfig,
        port: Option<(Arc<Switch>, PortNumber)>,
    ) -> Result<DeviceConfig<'n>, Unavailable> {
        Ok(DeviceConfig {
            name,
            port,
            disk: vm.disk.as_ref().map(|disk| Disk::open(disk.path.as_ref(), disk.read_only)).transpose()?,
            tap: vm.tap.as_ref().map(|tap| Tap::open(tap.as_str())).transpose()?,
            socket: vm.vsock.as_ref().map(|path| HostSocket::open(path.as_ref())).transpose()?,
            console: self.sinks.console.clone(),
            tell: Arc::clone(&self.sinks.tell),
        })
    }
}

fn attributes(vm: &VmConfig) -> Attributes {
    Attributes { group: stile_assembly::group(vm), ..stile_assembly::attributes(vm) }
}

fn cannot_make(name: &str, error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::Run(miette::Report::from_err(error).wrap_err(format!("VM {name}")))
}
