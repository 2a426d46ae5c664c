//! shuttle's locks with parking_lot's methods, and waits that are cut into steps.

use std::io;

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
pub(crate) use shuttle::sync::{RwLockReadGuard, mpsc};
pub(crate) use shuttle::thread;

use shuttle::sync::{MutexGuard, RwLockWriteGuard};
use vmm_sys_util::epoll::{Epoll, EpollEvent};

/// A thread that panics with a lock held ends the schedule, so no lock is taken after that.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap()
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T>(shuttle::sync::RwLock<T>);

impl<T> RwLock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::RwLock::new(value))
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        self.0.read().unwrap()
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.0.write().unwrap()
    }

    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.0.try_write().ok()
    }
}

/// A wait with a limit ends at once, whatever the limit is. One without looks at the events at each step.
pub(crate) fn wait(epoll: &Epoll, millis: i32, events: &mut [EpollEvent]) -> io::Result<usize> {
    loop {
        step();
        match epoll.wait(0, events)? {
            0 if millis < 0 => {}
            ready => return Ok(ready),
        }
    }
}

/// Another thread may have its turn.
pub(crate) fn step() {
    thread::yield_now();
}
