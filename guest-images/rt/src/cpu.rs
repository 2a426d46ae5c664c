//! A vCPU's view of itself.

use crate::clock::{self, Clock, Ticks};
use crate::{Boot, doorbell};
use core::sync::atomic::Ordering::Relaxed;
use stile_abi::{CallBlock, Gauge, Steal, exit, milestone};

/// The vCPU this code runs on. A copyable handle: it holds nothing but the index.
#[derive(Debug, Clone, Copy)]
pub struct Cpu {
    index: u32,
}

impl Cpu {
    /// Called once per vCPU by [`entry!`](crate::entry): tells the monitor that guest code runs, checks the ABI.
    pub fn enter(index: u32) -> Self {
        doorbell::progress(milestone::STARTED);
        if !Boot::page().is_compatible() {
            doorbell::exit(exit::ABI_MISMATCH);
        }
        Self { index }
    }

    /// Ends this vCPU: the VM exits if it is vCPU 0, else the vCPU idles for good.
    pub fn leave(self, code: u32) -> ! {
        if self.index == 0 {
            doorbell::exit(code);
        }
        loop {
            doorbell::idle(self, None);
        }
    }

    /// Index within the VM, from 0.
    pub fn index(self) -> u32 {
        self.index
    }

    /// Arguments for doorbells.
    pub fn call_block(self) -> &'static CallBlock {
        Boot::page().call_block(self.index)
    }

    /// Counters the monitor reads.
    pub fn gauge(self) -> &'static Gauge {
        Boot::page().gauge(self.index)
    }

    /// What the monitor tells this vCPU of the time that it waited for a host CPU.
    pub fn steal(self) -> &'static Steal {
        Boot::page().steal(self.index)
    }

    /// Begins to compute: from here on it looks at the clock every few microseconds.
    pub fn begins(self) {
        self.gauge().looked.store(clock::now().0, Relaxed);
    }

    /// Looks at the clock. If that has jumped, the vCPU did not run meanwhile.
    pub fn looks(self) {
        let (now, looked) = (clock::now(), &self.gauge().looked);
        let then = Ticks(looked.load(Relaxed));
        if then != Ticks(0) {
            self.gauge().record_gap(Clock::new(Boot::page()).ns(now.since(then)));
        }
        looked.store(now.0, Relaxed);
    }

    /// Looks for the last time, until it begins again.
    pub fn ends(self) {
        self.looks();
        self.gauge().looked.store(0, Relaxed);
    }

    /// Counts an operation done, and shows the monitor what this vCPU was told of its steal.
    pub fn op_done(self) {
        let gauge = self.gauge();
        gauge.add_ops(1);
        gauge.steal_seen.store(self.steal().waited.load(Relaxed), Relaxed);
    }
}
