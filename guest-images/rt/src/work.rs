//! Computing for a given time.
//!
//! Work is counted in loop iterations, not in elapsed time: a vCPU that was preempted while it worked has not worked in
//! the meantime. The monitor measures the loop once on the host and passes `loops_per_us=`, so that every VM of a
//! comparison does the same work.

pub use stile_abi::work::spin;

/// A length of work.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    loops: u64,
}

impl Work {
    /// Work that takes `ns` nanoseconds on an undisturbed CPU.
    pub fn of_ns(ns: u64, loops_per_us: u64) -> Self {
        Self { loops: ns.saturating_mul(loops_per_us) / 1000 }
    }

    /// Does the work.
    #[inline]
    pub fn run(self) {
        spin(self.loops);
    }
}
