//! What a vCPU is told of the time it waited for a host CPU.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Time that was stolen from one vCPU. Only the monitor writes, before the vCPU runs again; the vCPU only reads.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Steal {
    /// What the vCPU was runnable without a host CPU (unit: ns), plus one; 0 while the monitor tells nothing. It grows only
    /// while the vCPU does not run.
    pub waited: AtomicU64,
}

impl Steal {
    /// Time stolen so far (unit: ns); `None` where the monitor does not tell: the host's own scheduler keeps it to itself.
    pub fn stolen_ns(&self) -> Option<u64> {
        self.waited.load(Relaxed).checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_told_is_not_nothing_stolen() {
        assert_eq!(Steal { waited: AtomicU64::new(0) }.stolen_ns(), None);
        assert_eq!(Steal { waited: AtomicU64::new(1) }.stolen_ns(), Some(0));
        assert_eq!(Steal { waited: AtomicU64::new(500) }.stolen_ns(), Some(499));
    }
}
