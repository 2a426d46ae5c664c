//! Work with a beginning and an end. All vCPUs of a VM gather, all VMs of a run begin together, and the monitor is told
//! when the last vCPU has finished its part.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use stile_rt::abi::milestone;
use stile_rt::{Boot, Cpu, doorbell};

/// Counts the vCPUs of a VM, before and after their work.
#[derive(Debug)]
pub struct Assembly {
    here: AtomicU32,
    begun: AtomicBool,
    done: AtomicU32,
}

impl Assembly {
    /// No vCPU has come yet.
    pub const fn new() -> Self {
        Self { here: AtomicU32::new(0), begun: AtomicBool::new(false), done: AtomicU32::new(0) }
    }

    /// Waits until all vCPUs have come and the monitor lets them begin. The last one to come waits at the gate for all.
    pub fn begin(&self, cpu: Cpu) {
        if self.is_last(&self.here) {
            doorbell::progress(milestone::READY);
            doorbell::gate();
            // Release pairs with the Acquire below.
            self.begun.store(true, Ordering::Release);
            doorbell::kick_others();
            return;
        }
        while !self.begun.load(Ordering::Acquire) {
            doorbell::idle(cpu, None);
        }
    }

    /// This vCPU has finished its part and idles from now on. Its VM does not end, so that it can still be read.
    pub fn end(&self, cpu: Cpu) -> ! {
        if self.is_last(&self.done) {
            doorbell::progress(milestone::DONE);
        }
        loop {
            doorbell::idle(cpu, None);
        }
    }

    fn is_last(&self, counter: &AtomicU32) -> bool {
        counter.fetch_add(1, Ordering::AcqRel) + 1 == Boot::page().vcpus()
    }
}

impl Default for Assembly {
    fn default() -> Self {
        Self::new()
    }
}
