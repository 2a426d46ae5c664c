//! The gate of a VM. Its workload waits there, set up, until the monitor opens the gates of all VMs of a run at once.

use std::sync::{Mutex, PoisonError};

/// A gate, closed until it is opened once.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_open: bool,
    /// vCPUs to wake when the gate opens.
    waiting: Vec<u32>,
}

impl Gate {
    /// A vCPU has reached the gate. Returns whether it may pass. If not, [`open`](Self::open) will return the vCPU; it
    /// asks again if it runs before that.
    pub(super) fn admits(&self, vcpu: u32) -> bool {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !inner.is_open && !inner.waiting.contains(&vcpu) {
            inner.waiting.push(vcpu);
        }
        inner.is_open
    }

    /// Opens the gate. Returns the vCPUs that wait.
    pub(super) fn open(&self) -> Vec<u32> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.is_open = true;
        std::mem::take(&mut inner.waiting)
    }

    /// Whether a vCPU waits.
    pub(super) fn is_reached(&self) -> bool {
        !self.0.lock().unwrap_or_else(PoisonError::into_inner).waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_before_the_gate_opens_is_named_once_and_who_comes_later_goes_through() {
        let gate = Gate::default();
        assert!(!gate.is_reached());
        assert!(!gate.admits(3) && !gate.admits(3) && gate.is_reached());
        assert_eq!(gate.open(), [3]);
        assert!(gate.admits(3) && gate.admits(4));
        assert!(gate.open().is_empty());
    }
}
