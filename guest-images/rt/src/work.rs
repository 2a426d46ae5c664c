//! Computing for a given time.
//!
//! Work is counted in loop iterations, not in elapsed time: a vCPU that was preempted while it worked has not worked in
//! the meantime. The monitor measures the loop once on the host and passes `loops_per_us=`, so that every VM of a
//! comparison does the same work.

pub use stile_abi::work::spin;

use crate::Cpu;

/// Length of the pieces between looks at the clock (unit: ns).
const PIECE_NS: u64 = 10_000;

/// A length of work.
#[derive(Debug, Clone, Copy)]
pub struct Work {
    loops: u64,
    /// Loops in a piece.
    piece: u64,
}

impl Work {
    /// Work that takes `ns` nanoseconds on an undisturbed CPU.
    pub fn of_ns(ns: u64, loops_per_us: u64) -> Self {
        let loops = |ns: u64| ns.saturating_mul(loops_per_us) / 1000;
        Self { loops: loops(ns), piece: loops(PIECE_NS).max(1) }
    }

    /// Does the work, and counts the gaps in it. No work takes no look at the clock: that would take as long as passing
    /// a message between two vCPUs that both run.
    #[inline]
    pub fn run(self, cpu: Cpu) {
        if self.loops == 0 {
            return;
        }
        cpu.begins();
        for _ in 0..self.loops / self.piece {
            spin(self.piece);
            cpu.looks();
        }
        spin(self.loops % self.piece);
        cpu.ends();
    }
}
