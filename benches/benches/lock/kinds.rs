//! The compared locks, as types, so that a load is compiled for each.

use stile_sched::lock::{LockRules, QueueLock};

/// Gives one thread at a time access to the guarded value.
pub(crate) trait Lock<T>: Sync {
    fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> R;
}

/// A kind of lock.
pub(crate) trait Kind {
    type Lock<T: Send>: Lock<T>;

    fn lock<T: Send>(data: T) -> Self::Lock<T>;
}

/// The run-queue lock under these rules.
pub(crate) struct Queue<const LATERAL: bool, const ADAPTIVE: bool>;

impl<const LATERAL: bool, const ADAPTIVE: bool> Kind for Queue<LATERAL, ADAPTIVE> {
    type Lock<T: Send> = QueueLock<T>;

    fn lock<T: Send>(data: T) -> QueueLock<T> {
        QueueLock::new(data, LockRules { lateral: LATERAL, adaptive: ADAPTIVE })
    }
}

impl<T: Send> Lock<T> for QueueLock<T> {
    fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        with(&mut self.lock())
    }
}

/// parking_lot's mutex: a thread that arrives takes a free lock, and about every half millisecond the lock is handed
/// over.
pub(crate) struct ParkingLot;

impl Kind for ParkingLot {
    type Lock<T: Send> = parking_lot::Mutex<T>;

    fn lock<T: Send>(data: T) -> parking_lot::Mutex<T> {
        parking_lot::Mutex::new(data)
    }
}

impl<T: Send> Lock<T> for parking_lot::Mutex<T> {
    fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        with(&mut self.lock())
    }
}

/// The standard library's mutex: a thread that arrives takes a free lock, and a waiter's wait has no bound.
pub(crate) struct Std;

impl Kind for Std {
    type Lock<T: Send> = std::sync::Mutex<T>;

    fn lock<T: Send>(data: T) -> std::sync::Mutex<T> {
        std::sync::Mutex::new(data)
    }
}

impl<T: Send> Lock<T> for std::sync::Mutex<T> {
    fn with<R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        with(&mut self.lock().expect("nobody panics with the lock held"))
    }
}
