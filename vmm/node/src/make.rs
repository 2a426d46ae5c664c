//! Makes VMs of their configurations.

use crate::gone::{Gone, Presence};
use crate::images::Guest;
use crate::networks::{Networks, Place};
use kvm_ioctls::Kvm;
use std::sync::Arc;
use std::time::Duration;
use stile_api::{Problem, Reason};
use stile_config::{PolicyConfig, VmConfig};
use stile_machine::devices::block::Disk;
use stile_machine::devices::net::Tap;
use stile_machine::devices::virtio::Tell;
use stile_machine::devices::vsock::HostSocket;
use stile_machine::linux::devices::{self, DeviceConfig, Unavailable};
use stile_machine::linux::{self, Interrupts, LinuxState, LinuxVm};
use stile_machine::unikernel::{self, Spec, Vm};
use stile_machine::vm::console::Sink;
use stile_machine::vm::{HostFeatures, VcpuSet, VirtualMachine};
use stile_sched::attributes::Attributes;
use stile_sched::{Domain, Nanos};

/// A VM that has its memory and its vCPUs.
pub struct Machine {
    /// The VM. It is dropped before it gives its port up.
    pub vm: Box<dyn VirtualMachine>,
    /// Its state, if it is a Linux guest.
    pub linux: Option<Arc<LinuxState>>,
    /// Its vCPUs wait inside the host's kernel when they halt, so that executors cannot carry them.
    pub waits_inside: bool,
    _place: Option<Place>,
    /// Last, so that all else is free when it is dropped.
    presence: Presence,
}

impl Machine {
    /// Tells when its memory and what it held of the host's are free.
    pub(crate) fn gone(&self) -> Gone {
        self.presence.gone()
    }
}

impl VirtualMachine for Machine {
    fn vcpu_set(&self) -> &VcpuSet {
        self.vm.vcpu_set()
    }

    fn told_wait(&self, vcpu: u32) -> Option<Nanos> {
        self.vm.told_wait(vcpu)
    }

    fn results(&self) -> Vec<(String, u64)> {
        self.vm.results()
    }
}

/// What all VMs of a node are made with.
pub struct Maker<'a> {
    /// KVM.
    pub kvm: &'a Kvm,
    /// The domain that they join.
    pub domain: &'a Arc<dyn Domain>,
    /// Its policy, with the mechanism that carries it out.
    pub policy: &'a PolicyConfig,
    /// How long KVM polls after a halt; `None`: as it is set.
    pub halt_poll: Option<Duration>,
    /// The networks.
    pub networks: &'a Arc<Networks>,
    /// Messages about devices that are turned off.
    pub tell: &'a Tell,
}

impl Maker<'_> {
    /// Makes a VM under this name. It does not run yet. Its output goes to `console`.
    pub fn make(
        &self,
        name: &str,
        vm: &VmConfig,
        guest: &Guest,
        attributes: Attributes,
        console: Sink,
    ) -> Result<Machine, Problem> {
        let place = match &vm.network {
            Some(network) => {
                Some(self.networks.join(network.as_str(), vm.ipv4.map(|address| address.get())).map_err(|full| {
                    Problem::new(Reason::Conflict, full.to_string()).remedy("name another network in some of the VMs")
                })?)
            }
            None => None,
        };
        match guest {
            Guest::Unikernel(image) => self.unikernel(name, vm, image, attributes, console, place),
            Guest::Linux(payload) => self.linux(name, vm, payload, attributes, console, place),
        }
    }

    fn unikernel(
        &self,
        name: &str,
        vm: &VmConfig,
        image: &[u8],
        attributes: Attributes,
        console: Sink,
        place: Option<Place>,
    ) -> Result<Machine, Problem> {
        let spec = Spec {
            name,
            image,
            vcpus: vm.vcpus,
            memory: vm.memory().bytes(),
            attributes,
            cmdline: &vm.cmdline,
            console,
            device: None,
        };
        let domain = Arc::clone(self.domain);
        let made = match &place {
            Some(place) => unikernel::create_on_switch(self.kvm, &spec, domain, place.switch(), place.number()),
            None => Vm::create(self.kvm, &spec, domain),
        };
        let vm = made.map_err(|e| cannot_make(name, &e))?;
        let presence = Presence::default();
        Ok(Machine { vm: Box::new(vm), linux: None, waits_inside: false, _place: place, presence })
    }

    fn linux(
        &self,
        name: &str,
        vm: &VmConfig,
        payload: &linux::Payload,
        attributes: Attributes,
        console: Sink,
        place: Option<Place>,
    ) -> Result<Machine, Problem> {
        let unavailable =
            |e: Unavailable| Problem::of(Reason::Conflict, format_args!("VM {name}"), &e).remedy(e.remedy().to_owned());
        let devices = self.devices(name, vm, place.as_ref(), console.clone()).map_err(unavailable)?;
        let devices = devices::prepare(devices).map_err(unavailable)?;
        let interrupts = vm.interrupts.under(self.policy);
        let spec = linux::Spec {
            name,
            payload,
            vcpus: vm.vcpus,
            attributes,
            interrupts,
            halt_poll: self.halt_poll,
            shown: HostFeatures { nested: vm.nested, counters: vm.counters },
            console,
            devices,
        };
        let vm = LinuxVm::create(self.kvm, spec, Arc::clone(self.domain)).map_err(|e| cannot_make(name, &e))?;
        let linux = Some(Arc::clone(vm.state()));
        let (waits_inside, presence) = (interrupts == Interrupts::Kernel, Presence::default());
        Ok(Machine { vm: Box::new(vm), linux, waits_inside, _place: place, presence })
    }

    /// The devices that a VM asks for. What they need of the host is opened here, before there is a VM.
    fn devices<'n>(
        &self,
        name: &'n str,
        vm: &VmConfig,
        place: Option<&Place>,
        console: Sink,
    ) -> Result<DeviceConfig<'n>, Unavailable> {
        Ok(DeviceConfig {
            name,
            port: place.map(|place| (Arc::clone(place.switch()), place.number())),
            disk: vm.disk.as_ref().map(|disk| Disk::open(disk.path.as_ref(), disk.read_only)).transpose()?,
            tap: vm.tap.as_ref().map(|tap| Tap::open(tap.as_str())).transpose()?,
            socket: vm.vsock.as_ref().map(|path| HostSocket::open(path.as_ref())).transpose()?,
            console,
            tell: Arc::clone(self.tell),
        })
    }
}

fn cannot_make(name: &str, error: &(dyn std::error::Error + 'static)) -> Problem {
    Problem::of(Reason::Unsupported, format_args!("VM {name} cannot be made"), error)
}
