//! Where waiters sleep: a few futexes, and in each a bit per waiter.
//!
//! A ticket has a place and, in it, a mask; only beyond [`PLACES`] * 32 waiters do two share both, and then both are
//! woken and one finds that it is not its turn. Each place is an event count:
//! 1. A waiter reads the count ([`Places::look`]), then the lock's word, and sleeps while the count is what it read.
//! 2. A thread that names a waiter changes the lock's word, then the count, then wakes.
//!
//! So a waiter that read the old word sleeps on an old count, which ends its sleep.

use super::word::Ticket;
use crate::sync::{Futex, Ordering};
use crate::time::Time;
use std::num::NonZeroU32;

/// One cache line of them. Models have as few as show that places are shared.
const PLACES: u32 = if cfg!(all(test, any(loom, shuttle))) { 2 } else { 16 };

#[derive(Debug, Default)]
#[repr(align(64))]
pub(super) struct Places([Futex; PLACES as usize]);

impl Places {
    fn of(&self, ticket: Ticket) -> (&Futex, NonZeroU32) {
        let mask = NonZeroU32::new(1 << (ticket.0 / PLACES % u32::BITS)).expect("one bit is set");
        (&self.0[(ticket.0 % PLACES) as usize], mask)
    }

    /// The count of the ticket's place.
    pub(super) fn look(&self, ticket: Ticket) -> u32 {
        // Acquire pairs with the Release in wake: a thread that sees the new count sees the word that was changed
        // before it.
        self.of(ticket).0.word.load(Ordering::Acquire)
    }

    /// Sleeps while the count is this; may also return for no reason.
    pub(super) fn sleep(&self, ticket: Ticket, count: u32) {
        let (place, mask) = self.of(ticket);
        place.wait_masked(count, Time::NEVER, mask);
    }

    /// Ends the sleep of the ticket's waiter, or keeps it from sleeping.
    pub(super) fn wake(&self, ticket: Ticket) {
        let (place, mask) = self.of(ticket);
        // Release pairs with the Acquire in look.
        place.word.fetch_add(1, Ordering::Release);
        place.wake_masked(mask);
    }
}
