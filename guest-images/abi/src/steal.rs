//! What the monitor tells vCPUs of their scheduling: how long each has waited for a host CPU, and whether it has one.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The time that was stolen from one vCPU, and whether it runs. Only the monitor writes; all vCPUs of the VM may read.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Steal {
    /// How long the vCPU was runnable without a host CPU (unit: ns), plus one; 0 while the monitor tells nothing. It
    /// grows only while the vCPU does not run.
    pub waited: AtomicU64,
    /// A [`Presence`].
    pub presence: AtomicU32,
}

/// Whether a vCPU has a host CPU, as far as the monitor tells. It is written as the vCPU comes and goes, so it may have
/// changed by the time that it is read. KVM tells Linux guests this in `kvm_steal_time.preempted`, for
/// `vcpu_is_preempted`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Presence {
    /// The monitor does not tell: the host's own scheduler does not say.
    Untold = 0,
    /// The vCPU has one, and runs or is about to.
    Here = 1,
    /// The vCPU has none: it waits for one or for an event.
    Away = 2,
}

impl Steal {
    /// Time stolen so far (unit: ns); `None` where the monitor does not tell, since the host's own scheduler does not
    /// say.
    pub fn stolen_ns(&self) -> Option<u64> {
        self.waited.load(Relaxed).checked_sub(1)
    }

    /// Whether the vCPU has a host CPU.
    pub fn presence(&self) -> Presence {
        match self.presence.load(Relaxed) {
            1 => Presence::Here,
            2 => Presence::Away,
            _ => Presence::Untold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(waited: u64) -> Steal {
        Steal { waited: AtomicU64::new(waited), presence: AtomicU32::new(Presence::Away as u32) }
    }

    #[test]
    fn nothing_told_is_not_nothing_stolen() {
        assert_eq!(told(0).stolen_ns(), None);
        assert_eq!(told(1).stolen_ns(), Some(0));
        assert_eq!(told(500).stolen_ns(), Some(499));
    }
}
