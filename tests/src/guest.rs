//! A guest under test: a VM, its console and its gauges.

use crate::{Program, wait_for};
use kvm_ioctls::Kvm;
use std::borrow::Cow;
use std::mem::offset_of;
use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stile_abi::gauge::BUCKETS;
use stile_abi::{Gauge, Presence, Steal};
use stile_machine::devices::MmioDevice;
use stile_machine::devices::net::{NetDevice, PortNumber, Switch, VmEvents};
use stile_machine::unikernel::image::forge;
use stile_machine::unikernel::{CreateError, Spec, Vm};
use stile_machine::vm::Outcome;
use stile_machine::vm::console::Sink;
use stile_sched::attributes::{Attributes, Cap, Group, GroupId};
use stile_sched::{Domain, Nice};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Enough for any guest of these tests. The host maps only the pages that they touch.
const MEMORY: u64 = 32 << 20;
/// For operations that each take part of a minute.
const SLOWEST: Duration = Duration::from_secs(600);

/// The description of a guest.
#[derive(Debug, Clone)]
pub struct Recipe {
    name: String,
    image: Cow<'static, [u8]>,
    vcpus: u32,
    memory: u64,
    cmdline: String,
    port: Option<(Arc<Switch>, PortNumber)>,
    cap: Option<Cap>,
    nice: Nice,
    has_console: bool,
}

impl Recipe {
    /// A built-in image, with one vCPU.
    pub fn builtin(name: &str) -> Self {
        let image = stile_guest_images::image(name).unwrap_or_else(|| panic!("no built-in image {name}"));
        Self::new(name, Cow::Borrowed(image))
    }

    /// A guest of machine code, with one vCPU.
    pub fn program(program: &Program) -> Self {
        Self::file(forge::code(&program.code))
    }

    /// A guest of this ELF file, which may be truncated, with one vCPU.
    pub fn file(bytes: Vec<u8>) -> Self {
        Self::new("program", Cow::Owned(bytes))
    }

    fn new(name: &str, image: Cow<'static, [u8]>) -> Self {
        Self {
            name: name.to_owned(),
            image,
            vcpus: 1,
            memory: MEMORY,
            cmdline: String::new(),
            port: None,
            cap: None,
            nice: Nice::default(),
            has_console: true,
        }
    }

    /// With this many vCPUs.
    pub fn vcpus(self, vcpus: u32) -> Self {
        Self { vcpus, ..self }
    }

    /// With this much memory (units: bytes).
    pub fn memory(self, memory: u64) -> Self {
        Self { memory, ..self }
    }

    /// With this command line.
    pub fn cmdline(self, cmdline: &str) -> Self {
        Self { cmdline: cmdline.to_owned(), ..self }
    }

    /// With this cap, which needs a domain that enforces caps.
    pub fn cap(self, cap: Cap) -> Self {
        Self { cap: Some(cap), ..self }
    }

    /// With this nice value.
    pub fn nice(self, nice: Nice) -> Self {
        Self { nice, ..self }
    }

    /// Without a console: what it prints is not kept.
    pub fn without_console(self) -> Self {
        Self { has_console: false, ..self }
    }

    /// With a network device at this port of a switch, and the address that goes with it.
    ///
    /// # Panics
    /// If no port has this number.
    pub fn at_port(self, switch: &Arc<Switch>, number: u16) -> Self {
        let number = PortNumber::new(number).unwrap_or_else(|| panic!("no port has number {number}"));
        Self { port: Some((Arc::clone(switch), number)), ..self }
    }

    /// Makes the VM, which does not run yet.
    pub fn try_create(&self, kvm: &Kvm, domain: &Arc<dyn Domain>) -> Result<Guest, CreateError> {
        let (text, events) = (Arc::default(), Arc::new(VmEvents::default()));
        let attach = self.port.as_ref().map(|(switch, number)| {
            let events = &events;
            move |memory: &GuestMemoryMmap| {
                let device = NetDevice::attach(switch, *number, memory.clone(), Arc::clone(events) as _)?;
                Ok(Arc::new(device) as Arc<dyn MmioDevice>)
            }
        });
        let address = self.port.as_ref().map(|(_, number)| format!("net.ip={}/16 ", number.ip()));
        let spec = Spec {
            name: &self.name,
            image: &self.image,
            vcpus: self.vcpus,
            memory: self.memory,
            attributes: Attributes {
                nice: self.nice,
                group: self.cap.map(|cap| Group { id: GroupId::unique(), cap }),
                ..Attributes::default()
            },
            cmdline: &format!("{}{}", address.unwrap_or_default(), self.cmdline),
            console: if self.has_console { Sink::Buffer(Arc::clone(&text)) } else { Sink::Discard },
            device: attach.as_ref().map(|attach| attach as _),
        };
        let vm = Vm::create(kvm, &spec, Arc::clone(domain))?;
        events.lead_to(vm.status());
        Ok(Guest { vm, text })
    }

    /// Makes the VM, which does not run yet.
    ///
    /// # Panics
    /// If it cannot be made.
    #[track_caller]
    pub fn create(&self, kvm: &Kvm, domain: &Arc<dyn Domain>) -> Guest {
        self.try_create(kvm, domain).unwrap_or_else(|e| panic!("cannot make {}: {e} ({e:?})", self.name))
    }

    /// Makes the VM and starts it.
    #[track_caller]
    pub fn start(&self, kvm: &Kvm, domain: &Arc<dyn Domain>) -> Guest {
        let guest = self.create(kvm, domain);
        guest.start();
        guest
    }
}

/// A VM, its console and its gauges.
pub struct Guest {
    vm: Vm,
    text: Arc<Mutex<Vec<u8>>>,
}

impl Deref for Guest {
    type Target = Vm;

    fn deref(&self) -> &Vm {
        &self.vm
    }
}

impl Guest {
    /// The lines it printed so far.
    pub fn console(&self) -> String {
        String::from_utf8_lossy(&self.text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Operations a vCPU has counted.
    pub fn ops(&self, vcpu: u32) -> u64 {
        self.counter(vcpu, offset_of!(Gauge, ops))
    }

    /// Payload a vCPU has counted (units: bytes).
    pub fn bytes(&self, vcpu: u32) -> u64 {
        self.counter(vcpu, offset_of!(Gauge, bytes))
    }

    /// Errors a vCPU has counted.
    pub fn errors(&self, vcpu: u32) -> u64 {
        self.counter(vcpu, offset_of!(Gauge, errors))
    }

    /// How many responses, or waits, of a vCPU fell into each bucket.
    pub fn responses(&self, vcpu: u32) -> [u32; BUCKETS] {
        let state = self.vm.state();
        let at = state.layout().gauge(vcpu) + offset_of!(Gauge, latency) as u64;
        std::array::from_fn(|bucket| {
            let at = GuestAddress(at + (bucket * size_of::<u32>()) as u64);
            state.memory().load(at, Relaxed).expect("gauges are in memory")
        })
    }

    fn counter(&self, vcpu: u32, offset: usize) -> u64 {
        let state = self.vm.state();
        let at = GuestAddress(state.layout().gauge(vcpu) + offset as u64);
        state.memory().load(at, Relaxed).expect("gauges are in memory")
    }

    /// Whether a vCPU runs, by the presence that the guest reads.
    pub fn presence(&self, vcpu: u32) -> Presence {
        let state = self.vm.state();
        let at = GuestAddress(state.layout().steal(vcpu) + offset_of!(Steal, presence) as u64);
        let presence = state.memory().load::<u32>(at, Relaxed).expect("steals are in memory");
        Steal { waited: 0.into(), presence: presence.into() }.presence()
    }

    /// Waits until the guest reads this presence of each of these vCPUs, one after the other.
    #[track_caller]
    pub fn are(&self, vcpus: impl IntoIterator<Item = u32>, presence: Presence) {
        for vcpu in vcpus {
            wait_for(&format!("vCPU {vcpu} is {presence:?}"), || self.presence(vcpu) == presence);
        }
    }

    /// Waits until the guest has ended by itself, and all its vCPUs are gone.
    #[track_caller]
    pub fn ends(&self) -> Outcome {
        wait_for("the guest ends by itself", || self.state().has_ended());
        self.wait()
    }

    /// Waits until each of these vCPUs has counted `more` operations on top of those it has now. One that makes no
    /// progress for a minute does not get on. Where each operation is slow, all of them may take ten minutes.
    #[track_caller]
    pub fn progresses(&self, vcpus: impl IntoIterator<Item = u32>, more: u64) {
        let goals: Vec<_> = vcpus.into_iter().map(|vcpu| (vcpu, self.ops(vcpu) + more)).collect();
        for (vcpu, goal) in goals {
            let (begun, mut counted) = (Instant::now(), self.ops(vcpu));
            while counted < goal {
                assert!(begun.elapsed() < SLOWEST, "vCPU {vcpu} came from {} to {counted} of {goal}", goal - more);
                wait_for(&format!("{} vCPU {vcpu} gets on from {counted} to {goal}", self.state().name()), || {
                    assert_eq!(self.state().outcome(), None, "ended instead of getting on: {}", self.console());
                    self.ops(vcpu) > counted
                });
                counted = self.ops(vcpu);
            }
        }
    }

    /// As [`progresses`](Self::progresses), for all vCPUs.
    #[track_caller]
    pub fn all_progress(&self, more: u64) {
        self.progresses(0..self.state().vcpus(), more);
    }
}
