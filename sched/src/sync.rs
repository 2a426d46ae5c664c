//! Atomics, futex and threads: the real ones, or a model checker's.
//!
//! What has a protocol of its own takes them from here, so that the code that runs is the code that is checked: the
//! [slot word](crate::slot), the [lock](crate::lock), the [parker](crate::domain::parker), the events of a vCPU, the
//! gate of the leases, the shards' board and the whereabouts of vCPUs. loom tries all schedules of a few threads, for
//! each protocol alone; its tests begin with `loom_`. shuttle tries many random schedules of a whole domain; its tests
//! begin with `shuttle_`, and threads, time, kicks and timers are modelled as well (`model.rs`). The other tests run on
//! the real primitives.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p stile-sched --lib --release loom_
//! RUSTFLAGS="--cfg shuttle" cargo test -p stile-sched --lib shuttle_
//! ```

pub(crate) mod held;

#[cfg(all(test, loom))]
use loom as checker;
#[cfg(all(test, shuttle))]
use shuttle as checker;

#[cfg(not(all(test, any(loom, shuttle))))]
mod real;
#[cfg(not(all(test, any(loom, shuttle))))]
pub(crate) use real::{Futex, Patience};
#[cfg(not(all(test, any(loom, shuttle))))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(all(test, any(loom, shuttle)))]
mod checked;
#[cfg(all(test, any(loom, shuttle)))]
pub(crate) use checked::{Futex, Patience};
#[cfg(all(test, any(loom, shuttle)))]
pub(crate) use checker::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

// No test for loom starts a domain.
#[cfg(not(all(test, shuttle)))]
pub(crate) use parking_lot::{Mutex, RwLock};
#[cfg(all(test, shuttle))]
pub(crate) use shuttle::{hint, sync::mpsc, thread, thread_local};
#[cfg(all(test, shuttle))]
pub(crate) use shuttle_parking_lot::{Mutex, RwLock};
#[cfg(not(all(test, shuttle)))]
pub(crate) use std::{hint, sync::mpsc, thread, thread_local};

/// A thread waits for another one that will be ready at once.
pub(crate) fn relax() {
    #[cfg(not(all(test, any(loom, shuttle))))]
    {
        hint::spin_loop();
        thread::yield_now();
    }
    #[cfg(all(test, any(loom, shuttle)))]
    checker::thread::yield_now();
}
