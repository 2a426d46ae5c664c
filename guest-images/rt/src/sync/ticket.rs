//! A ticket lock: first come, first served.
//!
//! A vCPU that draws a ticket writes its index beside the ticket. So a waiter can always name the vCPU that is next,
//! also in the moment after a release when that vCPU may not have run yet to notice. That vCPU must run before any
//! other can get on.

use super::Patience;
use core::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use stile_abi::HintKind;

/// Most vCPUs that may contend; KVM allows no more in one VM.
const SEATS: usize = 1024;

/// The lock.
#[derive(Debug)]
pub struct TicketLock {
    next: AtomicU32,
    serving: AtomicU32,
    /// vCPU index by ticket modulo [`SEATS`].
    seats: [AtomicU16; SEATS],
}

/// The lock, held; dropping it releases the lock.
#[derive(Debug)]
pub struct TicketGuard<'a> {
    lock: &'a TicketLock,
    ticket: u32,
}

impl TicketLock {
    /// A free lock.
    pub const fn new() -> Self {
        Self { next: AtomicU32::new(0), serving: AtomicU32::new(0), seats: [const { AtomicU16::new(0) }; SEATS] }
    }

    /// Waits for the lock.
    pub fn lock(&self, vcpu: u32, patience: Patience) -> TicketGuard<'_> {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        self.seats[ticket as usize % SEATS].store(vcpu as u16, Ordering::Relaxed);
        // Acquire pairs with the Release in drop: the last holder's writes are seen.
        patience.wait(|| self.serving.load(Ordering::Acquire) == ticket, || self.holder());
        TicketGuard { lock: self, ticket }
    }

    /// The vCPU that is next. Approximate by nature: it may have changed when the caller acts on it.
    fn holder(&self) -> HintKind {
        let serving = self.serving.load(Ordering::Relaxed);
        HintKind::Lock { holder: self.seats[serving as usize % SEATS].load(Ordering::Relaxed) }
    }
}

impl Default for TicketLock {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TicketGuard<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquire in lock.
        self.lock.serving.store(self.ticket.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::super::Manners;
    use super::*;

    const SPIN: Patience = Patience { spins: 1, manners: Manners::Telling };

    #[test]
    fn a_free_lock_is_taken_at_once_and_again_after_release() {
        let lock = TicketLock::new();
        drop(lock.lock(3, SPIN));
        drop(lock.lock(4, SPIN));
        assert_eq!(lock.serving.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn the_named_holder_is_the_vcpu_whose_ticket_is_served() {
        let lock = TicketLock::new();
        let guard = lock.lock(3, SPIN);
        lock.next.fetch_add(1, Ordering::Relaxed);
        lock.seats[1].store(9, Ordering::Relaxed);
        assert_eq!(lock.holder(), HintKind::Lock { holder: 3 });
        drop(guard);
        assert_eq!(lock.holder(), HintKind::Lock { holder: 9 }, "next in line even before it runs");
    }
}
