//! A lock like those of Java's virtual machines around 2000. A vCPU that finds it taken spins a little, yields, and
//! looks again, for as long as it takes. The vCPU that looks at the right moment gets it: there is no queue.
//!
//! It is built on the scheduler's yield. Where a yield lets no other vCPU run, a waiter burns the holder's time. The
//! holder is written into the lock, so that a yield can name it.
#![allow(unsafe_code, reason = "a lock gives out what it guards")]

use super::{Park, Patience};
use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering};
use stile_abi::HintKind;

/// 0 if there is no holder, else the holder's index plus 1.
const FREE: u32 = 0;

/// A value that one vCPU at a time may use.
pub struct YieldingLock<T> {
    holder: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached through a guard, and there is one guard at a time.
unsafe impl<T: Send> Sync for YieldingLock<T> {}

/// The lock, held; dropping it releases the lock.
pub struct YieldingGuard<'a, T> {
    lock: &'a YieldingLock<T>,
}

impl<T> YieldingLock<T> {
    /// A free lock around a value.
    pub const fn new(value: T) -> Self {
        Self { holder: AtomicU32::new(FREE), value: UnsafeCell::new(value) }
    }

    /// Waits for the lock.
    pub fn lock(&self, who: &impl Park, patience: Patience) -> YieldingGuard<'_, T> {
        let me = who.index() + 1;
        patience.wait_as(|hint| who.yield_now(hint), |vcpu| who.presence(vcpu), || self.takes(me), || self.holder());
        YieldingGuard { lock: self }
    }

    fn takes(&self, me: u32) -> bool {
        // The load keeps a waiter's spinning out of the holder's cache. Acquire pairs with the Release in drop.
        self.holder.load(Ordering::Relaxed) == FREE
            && self.holder.compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The vCPU that holds the lock. It may be another one by the time that the caller names it.
    fn holder(&self) -> HintKind {
        match self.holder.load(Ordering::Relaxed) {
            FREE => HintKind::Unknown,
            holder => HintKind::Lock { holder: (holder - 1) as u16 },
        }
    }
}

impl<T> Deref for YieldingGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard is the only one, so no other vCPU writes meanwhile.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for YieldingGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard is the only one, and borrowed for as long as the reference lives.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for YieldingGuard<'_, T> {
    fn drop(&mut self) {
        // Release pairs with the Acquire in takes.
        self.lock.holder.store(FREE, Ordering::Release);
    }
}

impl<T> fmt::Debug for YieldingLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("YieldingLock").field("holder", &self.holder).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for YieldingGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("YieldingGuard").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{EAGER, Threads};
    use super::*;

    #[test]
    fn a_taken_lock_names_its_holder_and_a_free_one_nobody() {
        let (threads, lock) = (Threads::new(4), YieldingLock::new(()));
        let guard = lock.lock(&threads.vcpu(3), EAGER);
        assert_eq!(lock.holder(), HintKind::Lock { holder: 3 });
        assert!(!lock.takes(1), "there is one holder at a time");
        drop(guard);
        assert_eq!(lock.holder(), HintKind::Unknown);
    }

    #[test]
    fn increments_under_the_lock_are_not_lost() {
        const EACH: u64 = 5_000;
        let (threads, lock) = (Threads::new(4), YieldingLock::new(0u64));
        threads.run(|vcpu| (0..EACH).for_each(|_| *lock.lock(&vcpu, EAGER) += 1));
        assert_eq!(*lock.lock(&threads.vcpu(0), EAGER), 4 * EACH);
    }
}
