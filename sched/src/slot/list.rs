//! How CPUs were handed out before slots had words: the free ones in a list behind one lock.
//!
//! For comparison alone: each entry takes a slot from the list and each exit puts it back. So all threads that enter
//! write to the same lines of memory, and which vCPU was where last is forgotten.

use crate::ids::Slot;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The list.
#[derive(Debug)]
pub struct FreeList(Mutex<Vec<Slot>>);

impl FreeList {
    /// A list of so many free slots.
    pub fn new(slots: u16) -> Self {
        Self(Mutex::new((0..slots).map(Slot).collect()))
    }

    /// Takes a slot; `None` if none is free.
    pub fn take(&self) -> Option<Slot> {
        self.lock().pop()
    }

    /// Puts a slot back.
    pub fn give(&self, slot: Slot) {
        self.lock().push(slot);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_taken_by_one_until_it_is_given_back() {
        let list = FreeList::new(1);
        assert_eq!(list.take(), Some(Slot(0)));
        assert_eq!(list.take(), None);
        list.give(Slot(0));
        assert_eq!(list.take(), Some(Slot(0)));
    }
}
