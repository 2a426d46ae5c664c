//! The run-queue lock: waiters in a queue, a hand-over to the first, and two ways not to wait for its wake-up.
//!
//! Modelled on the rtmutex of the Linux RT patches with lateral lock stealing and adaptive spinning (2.6.24.7-rt7). A
//! thread that leaves the lock names the first waiter its *pending owner* and wakes only that one. Until that waiter
//! runs, the lock is reserved for it. On its own, this is a wake-up between any two owners, for which all waiters wait.
//! Two rules of [`LockRules`] shorten it. Each can be switched off:
//!
//! * **lateral**: a thread that arrives before the pending owner runs takes the lock: it is an equal, and it is here.
//!   One pending owner is passed 64 times at most, then its hand-over stands. A caller of class rt (`Caller::Rt`) does
//!   not steal, and neither it nor any waiter before it in the queue is robbed: among equals of class rt the order of
//!   arrival is a promise, and a thief could starve them.
//! * **adaptive**: the first waiter spins, and is not woken then; all others sleep at once.
//!
//! What it does not do: it has no priorities beyond the two classes, no inheritance, no timeout, and no poison; a guard
//! dropped by a panic unlocks.
//!
//! # When to stop spinning
//! Spinning pays only while the owner is on a CPU. The kernel knows, a thread does not: its own preemption it cannot
//! see (`need_resched`), and the owner's state it could only read by a system call, which costs as much as the sleep it
//! would save. But what is held here is short: a critical section of the scheduler is some hundred nanoseconds, and
//! never enters the kernel (below). So an owner that is still the same after `PATIENCE`, several times the longest
//! section, has been preempted, and the spinner sleeps. A robbery is a new owner: patience begins anew, a bounded
//! number of times. The unlocking thread sees from the word that the first waiter is awake, and saves its system call.
//!
//! # Rules for the holder
//! No system call with the lock held, and no second queue lock: waiting, waking, kicking and timers check it in debug
//! builds. A guard stays on its thread.
//!
//! # Protocol
//! 1. One word (`word.rs`) says all: held, named, the first waiter's ticket, how many wait. Every move is one
//!    compare-and-swap on it.
//! 2. A thread takes the lock, or draws a ticket. The first waiter says *awake* in the word while it looks for itself;
//!    before it sleeps it takes that back, which fails if it was named meanwhile.
//! 3. The owner leaves: free, or named for the first waiter. If that one is not awake, the owner says *awake* for it
//!    and wakes it, once.
//! 4. The pending owner claims what is named for it, or finds that it was robbed, and goes on with 2.
//!
//! Ordering: every taking of the lock is an Acquire of the word that pairs with the Release of the departure before it.
#![allow(unsafe_code, reason = "a lock lends its data to one thread at a time")]

mod places;
mod rules;
mod word;

pub(crate) use rules::Caller;
pub use rules::LockRules;

use crate::sync::held::assert_not_held;
use crate::sync::{AtomicU64, Ordering, Patience, held};
use crate::time::Nanos;
use places::Places;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use word::{Arrival, Departure, State, Ticket};

/// How long the first waiter spins for one owner. No configuration key: it follows from the length of the critical
/// sections, which are the scheduler's own.
const PATIENCE: Nanos = Nanos::from_micros(5);

/// A lock whose waiters queue.
pub struct QueueLock<T> {
    word: AtomicU64,
    rules: LockRules,
    places: Places,
    data: UnsafeCell<T>,
}

/// Holds the lock until dropped.
#[must_use = "dropping it unlocks"]
pub struct QueueGuard<'a, T> {
    lock: &'a QueueLock<T>,
    /// The mark that a lock is held is the thread's.
    stays: PhantomData<*const ()>,
}

impl<T> QueueLock<T> {
    /// A free lock.
    pub fn new(data: T, rules: LockRules) -> Self {
        let word = AtomicU64::new(State::FREE.0);
        Self { word, rules, places: Places::default(), data: UnsafeCell::new(data) }
    }

    /// Waits for the lock.
    pub fn lock(&self) -> QueueGuard<'_, T> {
        self.lock_as(Caller::Normal)
    }

    /// Waits for the lock, as a thread of this class.
    pub(crate) fn lock_as(&self, caller: Caller) -> QueueGuard<'_, T> {
        assert_not_held();
        loop {
            let state = self.state();
            match state.arrive(caller, self.rules) {
                Arrival::Takes(held) => {
                    if self.take(state, held) {
                        break;
                    }
                }
                Arrival::Waits(queued, ticket) => {
                    if self.step(state, queued) {
                        self.wait(ticket, caller);
                        break;
                    }
                }
            }
        }
        self.guard()
    }

    /// Takes the lock if it is free and has no pending owner.
    pub fn try_lock(&self) -> Option<QueueGuard<'_, T>> {
        assert_not_held();
        loop {
            let state = self.state();
            if self.take(state, state.free_to_held()?) {
                return Some(self.guard());
            }
        }
    }

    fn guard(&self) -> QueueGuard<'_, T> {
        held::set(true);
        QueueGuard { lock: self, stays: PhantomData }
    }

    fn state(&self) -> State {
        // Relaxed: what is made of it, a compare-and-swap confirms.
        State(self.word.load(Ordering::Relaxed))
    }

    /// A move that makes the caller the owner.
    fn take(&self, from: State, to: State) -> bool {
        // Acquire pairs with the Release in depart.
        self.word.compare_exchange_weak(from.0, to.0, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// A move that changes no owner.
    fn step(&self, from: State, to: State) -> bool {
        self.word.compare_exchange_weak(from.0, to.0, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn wait(&self, ticket: Ticket, caller: Caller) {
        let mut patient = self.rules.adaptive;
        loop {
            // Before the word: see `places.rs`.
            let count = self.places.look(ticket);
            let state = self.state();
            if let Some(claimed) = state.claim(ticket, caller) {
                if self.take(state, claimed) {
                    return;
                }
                continue;
            }
            let first = state.first() == Some(ticket);
            if first && patient {
                if state.is_awake() || self.step(state, state.watched()) {
                    patient = self.spin();
                }
            } else if !first || !state.is_awake() || self.step(state, state.unwatched()) {
                self.places.sleep(ticket, count);
                patient = self.rules.adaptive;
            }
        }
    }

    /// Spins as the first waiter until the lock is named, true, or an owner seems to be off its CPU.
    fn spin(&self) -> bool {
        let mut robbed = self.state().robbed();
        let mut patience = Patience::new(PATIENCE);
        loop {
            let state = self.state();
            if state.is_named() {
                return true;
            }
            if state.robbed() != robbed {
                robbed = state.robbed();
                patience = Patience::new(PATIENCE);
            }
            if !patience.lasts() {
                return false;
            }
        }
    }

    fn depart(&self) {
        held::set(false);
        loop {
            let state = self.state();
            let departure = state.depart();
            let (Departure::Leaves(left) | Departure::Wakes(left, _)) = departure;
            // Release pairs with the Acquire in take.
            if self.word.compare_exchange_weak(state.0, left.0, Ordering::Release, Ordering::Relaxed).is_ok() {
                if let Departure::Wakes(_, first) = departure {
                    self.places.wake(first);
                }
                return;
            }
        }
    }
}

impl<T> Deref for QueueGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: one guard exists at a time, and this borrows it.
        unsafe { &*self.lock.data.get() }
    }
}

impl<T> DerefMut for QueueGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: one guard exists at a time, and this borrows it exclusively.
        unsafe { &mut *self.lock.data.get() }
    }
}

impl<T> Drop for QueueGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.depart();
    }
}

// SAFETY: the lock lends its data to one thread at a time; that is a move of the data between threads.
unsafe impl<T: Send> Sync for QueueLock<T> {}
// SAFETY: what a guard lends is a reference to the data.
unsafe impl<T: Sync> Sync for QueueGuard<'_, T> {}

impl<T> fmt::Debug for QueueLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueLock").field("word", &self.state()).field("rules", &self.rules).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests;
