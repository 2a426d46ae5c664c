//! The gate of a VM: its workload waits here, set up, until the monitor lets all VMs of a run begin at once.

use std::sync::{Mutex, PoisonError};

/// Closed until it is opened, once.
#[derive(Debug, Default)]
pub(super) struct Gate(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    is_open: bool,
    /// vCPUs that have to be woken when it opens.
    waiting: Vec<u32>,
}

impl Gate {
    /// A vCPU has come; whether it may go on. If not, it is named when the gate opens, and asks again when it runs
    /// earlier.
    pub(super) fn admits(&self, vcpu: u32) -> bool {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !inner.is_open && !inner.waiting.contains(&vcpu) {
            inner.waiting.push(vcpu);
        }
        inner.is_open
    }

    /// Opens it: the vCPUs that wait.
    pub(super) fn open(&self) -> Vec<u32> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        inner.is_open = true;
        std::mem::take(&mut inner.waiting)
    }

    /// Whether somebody waits.
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
