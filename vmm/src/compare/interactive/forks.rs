//! forkload: small VMs that are made, run to their end and are taken down, without end, by threads of the monitor. One that
//! does not end well, or not at all, ends the run.

use super::super::runner::CompareError;
use super::super::site::Site;
use crate::vm::console::Sink;
use crate::vm::{Outcome, Spec};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use stile_abi::exit;
use stile_sched::domain::Attributes;

/// Memory of a small VM (units: bytes).
const MEMORY: u64 = 6 << 20;
/// Until a VM has ended: well beyond what that takes under any policy.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// What the threads share.
pub(super) struct Forks<'a> {
    site: &'a Site<'a>,
    done: AtomicU64,
    stopping: AtomicBool,
}

impl<'a> Forks<'a> {
    pub(super) fn new(site: &'a Site<'a>) -> Self {
        Self { site, done: AtomicU64::new(0), stopping: AtomicBool::new(false) }
    }

    /// VMs that have come and gone.
    pub(super) fn done(&self) -> u64 {
        self.done.load(Relaxed)
    }

    /// Every thread ends after the VM it is at.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Relaxed);
    }

    /// One VM after the other; the work of thread `n`.
    pub(super) fn run(&self, n: u32) -> Result<(), CompareError> {
        let name = format!("fork-{n}");
        let spec = Spec {
            name: &name,
            image: stile_guest_images::image("hello").expect("the suites run built-in images"),
            vcpus: 1,
            memory: MEMORY,
            attributes: Attributes::default(),
            cmdline: "console=none",
            console: Sink::Discard,
            device: None,
        };
        while !self.stopping.load(Relaxed) {
            let vm = self.site.create(&spec, None)?;
            vm.start();
            match vm.wait_for(ENDS_WITHIN) {
                Some(Outcome::Exit(exit::OK)) => drop(vm),
                Some(outcome) => return Err(self.site.ended(&vm, &outcome)),
                None => {
                    let how_far = format!("had not ended, the {}th of its kind", self.done() + 1);
                    return Err(self.site.stuck(&vm, how_far, ENDS_WITHIN));
                }
            }
            self.done.fetch_add(1, Relaxed);
        }
        Ok(())
    }
}
