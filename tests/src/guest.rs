//! A guest under test: a VM, its console and its gauges.

use crate::{Program, wait_for};
use kvm_ioctls::Kvm;
use std::borrow::Cow;
use std::mem::offset_of;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use stile::vm::console::Sink;
use stile::vm::image::forge;
use stile::vm::{CreateError, Outcome, Spec, Vm};
use stile_abi::Gauge;
use stile_sched::{Domain, Nice};
use vm_memory::{Bytes, GuestAddress};

/// Enough for any guest of these tests, and the host maps only what they touch.
const MEMORY: u64 = 32 << 20;

/// What a guest is made of.
#[derive(Debug, Clone)]
pub struct Recipe {
    name: String,
    image: Cow<'static, [u8]>,
    vcpus: u32,
    cmdline: String,
}

impl Recipe {
    /// A built-in image, with one vCPU.
    pub fn builtin(name: &str) -> Self {
        let image = stile_guest_images::image(name).unwrap_or_else(|| panic!("no built-in image {name}"));
        Self { name: name.to_owned(), image: Cow::Borrowed(image), vcpus: 1, cmdline: String::new() }
    }

    /// A guest of machine code, with one vCPU.
    pub fn program(program: &Program) -> Self {
        let image = Cow::Owned(forge::code(&program.code));
        Self { name: "program".to_owned(), image, vcpus: 1, cmdline: String::new() }
    }

    /// With this many vCPUs.
    pub fn vcpus(self, vcpus: u32) -> Self {
        Self { vcpus, ..self }
    }

    /// With this command line.
    pub fn cmdline(self, cmdline: &str) -> Self {
        Self { cmdline: cmdline.to_owned(), ..self }
    }

    /// Makes the VM, which does not run yet.
    pub fn try_create(&self, kvm: &Kvm, domain: &Arc<dyn Domain>) -> Result<Guest, CreateError> {
        let text = Arc::default();
        let spec = Spec {
            name: &self.name,
            image: &self.image,
            vcpus: self.vcpus,
            memory: MEMORY,
            nice: Nice::default(),
            cmdline: &self.cmdline,
            console: Sink::Buffer(Arc::clone(&text)),
            device: None,
        };
        Ok(Guest { vm: Vm::create(kvm, &spec, Arc::clone(domain))?, text })
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

/// A VM and what a test sees of it.
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
        let state = self.vm.state();
        let at = state.layout().gauge(vcpu) + offset_of!(Gauge, ops) as u64;
        state.memory().read_obj(GuestAddress(at)).expect("gauges are in memory")
    }

    /// Waits until the guest has ended by itself, and all its vCPUs are gone.
    #[track_caller]
    pub fn ends(&self) -> Outcome {
        wait_for("the guest ends by itself", || self.state().has_ended());
        self.wait()
    }

    /// Waits until each of these vCPUs has counted `more` operations on top of those it has now.
    #[track_caller]
    pub fn progresses(&self, vcpus: impl IntoIterator<Item = u32>, more: u64) {
        let goals: Vec<_> = vcpus.into_iter().map(|vcpu| (vcpu, self.ops(vcpu) + more)).collect();
        for (vcpu, goal) in goals {
            wait_for(&format!("{} vCPU {vcpu} gets on", self.state().name()), || {
                assert_eq!(self.state().outcome(), None, "ended instead of getting on: {}", self.console());
                self.ops(vcpu) >= goal
            });
        }
    }

    /// As [`progresses`](Self::progresses), for all vCPUs.
    #[track_caller]
    pub fn all_progress(&self, more: u64) {
        self.progresses(0..self.state().vcpus(), more);
    }
}
