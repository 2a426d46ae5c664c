//! shuttle's primitives, and waits that are cut into steps.

use std::io;

pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
pub(crate) use shuttle::sync::mpsc;
pub(crate) use shuttle::thread;
pub(crate) use shuttle_parking_lot::{Mutex, RwLock, RwLockReadGuard};

use vmm_sys_util::epoll::{Epoll, EpollEvent};

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
