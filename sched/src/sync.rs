//! Atomics and the futex: the real ones, or loom's model of them.
//!
//! What has a protocol of its own, the [slot word](crate::slot), the [parker](crate::domain::parker), the events of a vCPU
//! and the gate of the leases, takes them from here, so that the code that runs is the code that is model-checked:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p stile-sched --release loom_
//! ```
//!
//! Under `--cfg loom` only tests whose names begin with `loom_` make sense; all others run on the real primitives.

#[cfg(not(all(test, loom)))]
pub(crate) use real::Futex;
#[cfg(not(all(test, loom)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(all(test, loom))]
pub(crate) use model::Futex;

#[cfg(not(all(test, loom)))]
mod real {
    use super::AtomicU32;
    use crate::Time;
    use rustix::thread::futex;
    use rustix::time::Timespec;
    use std::num::NonZeroU32;

    /// A word that threads can wait on.
    #[derive(Debug, Default)]
    pub(crate) struct Futex {
        /// The word.
        pub(crate) word: AtomicU32,
    }

    impl Futex {
        /// Waits if the word is as expected, until somebody wakes this thread or the time comes; may also return for no
        /// reason. False: the time came.
        pub(crate) fn wait(&self, expected: u32, until: Time) -> bool {
            let time = Timespec { tv_sec: (until.0 / 1_000_000_000) as i64, tv_nsec: (until.0 % 1_000_000_000) as i64 };
            let timeout = (until != Time::NEVER).then_some(&time);
            let waited = futex::wait_bitset(&self.word, futex::Flags::PRIVATE, expected, timeout, NonZeroU32::MAX);
            waited != Err(rustix::io::Errno::TIMEDOUT)
        }

        /// Wakes a thread that waits.
        pub(crate) fn wake_one(&self) {
            // No error is possible for a mapped word.
            let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
        }
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::{AtomicU32, Ordering};
    use crate::Time;
    use loom::sync::{Condvar, Mutex};

    /// The kernel compares the word and begins to wait in one step; here a lock makes it one. A wait that has an end
    /// ends at once: the time may come at any moment, and loom tries all moments for what others do.
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
            let guard = self.lock.lock().unwrap();
            if self.word.load(Ordering::Relaxed) != expected {
                return true;
            }
            if until != Time::NEVER {
                return false;
            }
            drop(self.woken.wait(guard).unwrap());
            true
        }

        pub(crate) fn wake_one(&self) {
            let _guard = self.lock.lock().unwrap();
            self.woken.notify_one();
        }
    }
}
