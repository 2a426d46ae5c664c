//! Locks, atomics, threads and waits of the transport and its worker: the real ones, or shuttle's.
//!
//! shuttle tries many random schedules of the worker beside vCPUs (`model.rs`). The code that is checked is the code
//! that runs. Events, epoll and guest memory stay real: a wait is a look at epoll at each step, and [`step`] marks
//! where another thread may come between two accesses to guest memory.

#[cfg(not(all(test, shuttle)))]
mod real {
    pub(crate) use parking_lot::{Mutex, RwLock, RwLockReadGuard};
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
    pub(crate) use std::sync::mpsc;
    pub(crate) use std::thread;

    use std::io;
    use vmm_sys_util::epoll::{Epoll, EpollEvent};

    /// Waits for events, at most so many milliseconds; -1 means without end.
    pub(crate) fn wait(epoll: &Epoll, millis: i32, events: &mut [EpollEvent]) -> io::Result<usize> {
        epoll.wait(millis, events)
    }

    /// Does nothing.
    pub(crate) fn step() {}
}
#[cfg(not(all(test, shuttle)))]
pub(super) use real::{
    AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, RwLock, RwLockReadGuard, mpsc, step, thread, wait,
};

#[cfg(all(test, shuttle))]
mod modelled;
#[cfg(all(test, shuttle))]
pub(super) use modelled::{
    AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering, RwLock, RwLockReadGuard, mpsc, step, thread, wait,
};
