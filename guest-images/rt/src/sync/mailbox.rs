//! A mailbox for one message at a time from one sender to one receiver.

use super::Patience;
use core::sync::atomic::{AtomicU64, Ordering};
use stile_abi::HintKind;

/// Holds nothing (0) or one message. Aligned so that two mailboxes never share a cache line or an adjacent pair.
#[derive(Debug)]
#[repr(align(128))]
pub struct Mailbox(AtomicU64);

impl Mailbox {
    /// An empty mailbox.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Puts a message, which must not be 0, into an empty mailbox.
    pub fn send(&self, message: u64) {
        debug_assert!(message != 0 && self.0.load(Ordering::Relaxed) == 0);
        // Release pairs with the Acquire in receive.
        self.0.store(message, Ordering::Release);
    }

    /// Waits for a message from the vCPU `peer` and takes it.
    pub fn receive(&self, peer: u32, patience: Patience) -> u64 {
        patience.wait(|| self.0.load(Ordering::Acquire) != 0, || HintKind::Message { peer: peer as u16 });
        // The sender does not write again before it has an answer, so load and store need not be one step.
        let message = self.0.load(Ordering::Acquire);
        self.0.store(0, Ordering::Relaxed);
        message
    }
}

impl Default for Mailbox {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Manners;
    use super::*;

    #[test]
    fn a_message_sent_is_received_once() {
        let mailbox = Mailbox::new();
        mailbox.send(7);
        assert_eq!(mailbox.receive(1, Patience { spins: 1, manners: Manners::Telling }), 7);
        assert_eq!(mailbox.0.load(Ordering::Relaxed), 0);
    }
}
