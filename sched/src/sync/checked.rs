//! The futex and the spinning thread, as model checkers see them.

use super::held::assert_not_held;
use crate::time::{Nanos, Time};
use checker::sync::atomic::{AtomicU32, Ordering};
use checker::sync::{Condvar, Mutex};
#[cfg(loom)]
use loom as checker;
#[cfg(shuttle)]
use shuttle as checker;
use std::num::NonZeroU32;

/// The kernel compares the word and begins to wait in one step; here a lock makes it one. Bits are not modelled: all
/// waiters are woken, most of them for no reason.
#[derive(Debug)]
pub(crate) struct Futex {
    pub(crate) word: AtomicU32,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Default for Futex {
    fn default() -> Self {
        Self { word: AtomicU32::new(0), lock: Mutex::new(()), woken: Condvar::new() }
    }
}

impl Futex {
    pub(crate) fn wait(&self, expected: u32, until: Time) -> bool {
        assert_not_held();
        let guard = self.lock.lock().unwrap();
        if self.word.load(Ordering::Relaxed) != expected {
            return true;
        }
        if until != Time::NEVER {
            drop(guard);
            return timed_wait(until);
        }
        drop(self.woken.wait(guard).unwrap());
        true
    }

    pub(crate) fn wait_masked(&self, expected: u32, until: Time, _mask: NonZeroU32) -> bool {
        self.wait(expected, until)
    }

    pub(crate) fn wake_one(&self) {
        assert_not_held();
        let _guard = self.lock.lock().unwrap();
        self.woken.notify_one();
    }

    pub(crate) fn wake_masked(&self, _mask: NonZeroU32) {
        assert_not_held();
        let _guard = self.lock.lock().unwrap();
        self.woken.notify_all();
    }
}

/// The time may come at any moment: at once, and loom tries all moments for what others do.
#[cfg(loom)]
fn timed_wait(_until: Time) -> bool {
    false
}

/// The wait is cut into steps that end for no reason, until the time has come.
#[cfg(shuttle)]
fn timed_wait(until: Time) -> bool {
    checker::thread::yield_now();
    crate::time::monotonic() < until
}

/// One more look, then none.
#[derive(Debug)]
pub(crate) struct Patience(bool);

impl Patience {
    pub(crate) fn new(_span: Nanos) -> Self {
        Self(true)
    }

    pub(crate) fn lasts(&mut self) -> bool {
        checker::thread::yield_now();
        std::mem::replace(&mut self.0, false)
    }
}
