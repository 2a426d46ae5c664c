//! Tells when a machine is gone: its memory is freed, and the host's files, paths and ports that it held are free.
//!
//! That comes after the VM's end is told. KVM may take long to free a VM, and whoever asks how the VM ended should not
//! wait for that.

use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a machine keeps for as long as it holds something of the host's.
#[derive(Debug, Default)]
pub(crate) struct Presence(Arc<Inner>);

/// Waits for the end of a [`Presence`].
#[derive(Debug, Clone)]
pub(crate) struct Gone(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    gone: Mutex<bool>,
    changed: Condvar,
}

impl Presence {
    pub(crate) fn gone(&self) -> Gone {
        Gone(Arc::clone(&self.0))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        *self.0.gone.lock() = true;
        self.0.changed.notify_all();
    }
}

impl Gone {
    /// Waits until the machine is gone. False: it is still there after this time.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut gone = self.0.gone.lock();
        while !*gone {
            if self.0.changed.wait_until(&mut gone, until).timed_out() {
                return *gone;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_gone_when_its_presence_is_dropped() {
        let presence = Presence::default();
        let gone = presence.gone();
        assert!(!gone.wait(Duration::ZERO));
        let waiter = std::thread::spawn(move || gone.wait(Duration::from_secs(60)));
        drop(presence);
        assert!(waiter.join().unwrap());
    }
}
