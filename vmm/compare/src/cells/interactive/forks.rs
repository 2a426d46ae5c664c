//! forkload: threads of the monitor make small VMs, run them to their end and take them down, one after the other. A VM
//! that ends badly, or does not end in time, ends the run.

use crate::cells::site::Site;
use crate::error::CompareError;
use crate::workload::spec;
use kvm_ioctls::Kvm;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use stile_abi::exit;
use stile_machine::unikernel::{Spec, Vm};
use stile_machine::vm::Outcome;
use stile_machine::vm::console::Sink;
use stile_recording::Recorder;
use stile_sched::Domain;

/// Memory of a small VM (units: bytes).
const MEMORY: u64 = 6 << 20;
/// The time limit for a VM to end: well beyond what that takes under any policy.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// The state that the threads share.
pub(super) struct Forks<'a> {
    kvm: &'a Kvm,
    domain: Arc<dyn Domain>,
    recorder: Option<&'a Recorder>,
    /// The domain of the policy.
    label: &'a str,
    done: AtomicU64,
    stopping: AtomicBool,
}

impl<'a> Forks<'a> {
    pub(super) fn new(site: &'a Site<'a>) -> Self {
        Self {
            kvm: site.context.kvm,
            domain: Arc::clone(&site.domain),
            recorder: site.recorder,
            label: site.label,
            done: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        }
    }

    /// Number of VMs that have ended.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// Makes every thread end after its current VM.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// Makes one VM after the other; the work of thread `n`.
    pub(super) fn run(&self, n: u32) -> Result<(), CompareError> {
        let name = format!("fork-{n}");
        let spec = Spec { console: Sink::Discard, ..spec("hello", &name, MEMORY, "console=none") };
        let (name, label) = (name.clone(), self.label.to_owned());
        while !self.stopping.load(Relaxed) {
            let vm = match Vm::create(self.kvm, &spec, Arc::clone(&self.domain)) {
                Ok(vm) => vm,
                Err(source) => return Err(CompareError::Create { name, label, source }),
            };
            self.recorder.into_iter().for_each(|recorder| recorder.name(&vm));
            vm.start();
            match vm.wait_for(ENDS_WITHIN) {
                Some(Outcome::Exit(exit::OK)) => drop(vm),
                Some(outcome) => return Err(CompareError::Ended { name, label, outcome }),
                None => {
                    let how_far = format!("had not ended, the {}th of its kind,", self.done() + 1);
                    return Err(CompareError::Stuck { name, label, how_far, limit: ENDS_WITHIN });
                }
            }
            self.done.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}
