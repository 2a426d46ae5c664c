//! What a slot word is made of: atomics for any number of CPUs.

use crate::sync::{AtomicU32, Ordering};
use std::fmt::Debug;

/// A word that is read and replaced in one step, as seen by all threads that may touch it.
///
/// What was written before a successful [`replace`](Self::replace) or a [`swap`](Self::swap) is visible to the thread
/// that next replaces or swaps the value so written.
pub trait Word: Debug + Send + Sync + 'static {
    /// Whether threads on any CPU may touch the word. If not, only those bound to one and the same CPU may.
    const ANY_CPU: bool;

    /// A word with this value.
    fn new(value: u32) -> Self;

    /// The value; nothing else is seen with it.
    fn load(&self) -> u32;

    /// Sets the value and gives back the old one.
    fn swap(&self, value: u32) -> u32;

    /// Sets the value if it is as expected.
    fn replace(&self, expected: u32, value: u32) -> bool;
}

/// For any number of CPUs: an atomic.
#[derive(Debug)]
pub struct Smp(AtomicU32);

impl Word for Smp {
    const ANY_CPU: bool = true;

    #[inline]
    fn new(value: u32) -> Self {
        Self(AtomicU32::new(value))
    }

    #[inline]
    fn load(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    fn swap(&self, value: u32) -> u32 {
        // Release pairs with the Acquire of the next swap or replace: the next holder sees what the last one left, and
        // a holder that takes notice of a stamp sees what the stamper did before.
        self.0.swap(value, Ordering::AcqRel)
    }

    #[inline]
    fn replace(&self, expected: u32, value: u32) -> bool {
        // As in `swap`.
        self.0.compare_exchange(expected, value, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}
