//! Runs the guest at CPL 0 to its end.

use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use stile_machine::linux::{Interrupts, LinuxVm, Payload, Spec};
use stile_machine::vm::console::Sink;
use stile_machine::vm::{HostFeatures, Outcome};
use stile_sched::{Attributes, Domain};

const MEMORY: u64 = 16 << 20;
/// A sound run takes seconds where ring 0 is emulated.
const LIMIT: Duration = Duration::from_secs(120);

/// What became of a guest.
pub struct Ring0Run {
    /// `None`: it had not ended in time.
    pub outcome: Option<Outcome>,
    /// What it printed.
    pub text: String,
    /// Exits of all vCPUs.
    pub exits: u64,
    /// CPU time of all vCPUs.
    pub cpu: Duration,
}

impl Ring0Run {
    /// Runs the guest with these words on its command line.
    pub fn of(
        kvm: &kvm_ioctls::Kvm,
        domain: &Arc<dyn Domain>,
        interrupts: Interrupts,
        vcpus: u32,
        words: &str,
    ) -> Self {
        let folder = tempfile::tempdir().expect("a test may write temporary files");
        let kernel = folder.path().join("ring0");
        fs::write(&kernel, stile_guest_images::RING0).expect("the folder is this test's own");
        let payload = Payload::open(&kernel, None, &format!("{words} cpus={vcpus}"), MEMORY);
        let payload = payload.expect("the image is a kernel");
        let text = Arc::new(Mutex::new(Vec::new()));
        let spec = Spec {
            name: "ring0",
            payload: &payload,
            vcpus,
            attributes: Attributes::default(),
            interrupts,
            halt_poll: None,
            shown: HostFeatures::default(),
            console: Sink::Buffer(Arc::clone(&text)),
            devices: Vec::new(),
        };
        let vm = LinuxVm::create(kvm, spec, Arc::clone(domain)).expect("KVM makes it");
        vm.start();
        let outcome = vm.wait_for(LIMIT);
        let exits = vm.usage().iter().map(|usage| usage.exits).sum();
        let cpu = Duration::from_nanos(vm.usage().iter().map(|usage| usage.run_ns).sum());
        let text = String::from_utf8_lossy(&text.lock().unwrap_or_else(PoisonError::into_inner)).into_owned();
        Self { outcome, text, exits, cpu }
    }
}
