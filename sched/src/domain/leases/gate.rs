//! The gate between those who leave without a word and those who wait: naps without the lock, and none overlooked.
//!
//! A vCPU that blocks while nobody waits gives its slot up without telling the policy; the slot stays its own until
//! somebody needs it. That takes two parties to look at each other:
//!
//! *Who naps* (no lock):
//! 1. swaps its slot word to `free(v)`,
//! 2. puts the slot into the set of [free slots](Gate::leave),
//! 3. fence,
//! 4. looks whether somebody waits; if so, takes the lock and settles as below.
//!
//! *Who queues somebody* (under the lock):
//! 5. publishes that somebody waits ([`Gate::publish`]),
//! 6. fence,
//! 7. takes the free slots out and settles each: `free(v)` to `idle`, and the policy is told that v blocked.
//!
//! Of two fences one comes first: if 3 does, 7 finds the slot; if 6 does, 4 sees that somebody waits. So no waiter is
//! overlooked while a slot is free. A slot may stay in the set after its vCPU took it back: settling it fails and does no
//! harm. Once 5 has happened, everybody who naps sees it, until the queue is empty again; so 6 and 7 are needed only when
//! the first one begins to wait. Whoever has the lock settles before the policy is asked anything (7 alone), so that the
//! policy decides by what is so.

use crate::Slot;
use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// Free slots and whether somebody waits.
#[derive(Debug)]
pub(super) struct Gate {
    /// A bit for every word that may not be zero.
    summary: AtomicU64,
    words: Box<[AtomicU64]>,
    waiters: AtomicBool,
}

impl Gate {
    /// For this many slots, none free; nobody waits.
    pub(super) fn new(slots: usize) -> Self {
        let words = (0..slots.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { summary: AtomicU64::new(0), words, waiters: AtomicBool::new(false) }
    }

    /// Whether somebody waits. Read without the lock, where being late is made up for by the fences or by a kick.
    pub(super) fn waiters(&self) -> bool {
        self.waiters.load(Ordering::Relaxed)
    }

    /// Steps 2 to 4: the slot has become free. True: somebody waits, and the slot must be settled.
    #[must_use = "a waiter would be overlooked"]
    pub(super) fn leave(&self, slot: Slot) -> bool {
        let (word, bit) = (slot.index() / 64, 1 << (slot.index() % 64));
        // Release pairs with the Acquires of `next_free`: who takes the slot out sees that it is free. The summary comes
        // second, and is cleared first there, so that no slot is left out of it.
        self.words[word].fetch_or(bit, Ordering::Release);
        self.summary.fetch_or(1 << word, Ordering::Release);
        fence(Ordering::SeqCst);
        self.waiters()
    }

    /// Steps 5 and 6. True: somebody has begun to wait, and free slots must be settled. Under the lock.
    #[must_use = "a free slot would be overlooked"]
    pub(super) fn publish(&self, waiting: bool) -> bool {
        if self.waiters() == waiting {
            return false;
        }
        self.waiters.store(waiting, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        waiting
    }

    /// Takes out a slot that may be free. Under the lock.
    pub(super) fn next_free(&self) -> Option<Slot> {
        loop {
            // Relaxed: the swap below synchronises; a slot not seen yet is the business of its vCPU's step 4.
            let summary = self.summary.load(Ordering::Relaxed);
            if summary == 0 {
                return None;
            }
            let word = summary.trailing_zeros();
            let bits = &self.words[word as usize];
            let seen = bits.load(Ordering::Acquire);
            if seen & (seen.wrapping_sub(1)) == 0 {
                // The last one, as far as seen: the summary first, then look again.
                self.summary.fetch_and(!(1 << word), Ordering::AcqRel);
                let seen = bits.load(Ordering::Acquire);
                if seen & (seen.wrapping_sub(1)) != 0 {
                    self.summary.fetch_or(1 << word, Ordering::Release);
                }
            }
            let bit = seen.trailing_zeros();
            if bit < 64 {
                bits.fetch_and(!(1 << bit), Ordering::Acquire);
                return Some(Slot((word * 64 + bit) as u16));
            }
        }
    }
}
