//! The kernel's futex, and the time a spinning thread allows itself.

use super::held::assert_not_held;
use crate::time::{Nanos, Time, monotonic};
use rustix::thread::futex;
use rustix::time::Timespec;
use std::num::NonZeroU32;
use std::sync::atomic::AtomicU32;

/// A word that threads can wait on.
#[derive(Debug, Default)]
pub(crate) struct Futex {
    /// The word.
    pub(crate) word: AtomicU32,
}

impl Futex {
    /// Waits if the word is as expected, until another thread wakes this one or the time comes; may also return for no
    /// reason. False: the time came.
    #[inline]
    pub(crate) fn wait(&self, expected: u32, until: Time) -> bool {
        self.wait_masked(expected, until, NonZeroU32::MAX)
    }

    /// Waits for a wake of one of these bits.
    #[inline]
    pub(crate) fn wait_masked(&self, expected: u32, until: Time, mask: NonZeroU32) -> bool {
        assert_not_held();
        let time = Timespec { tv_sec: (until.0 / 1_000_000_000) as i64, tv_nsec: (until.0 % 1_000_000_000) as i64 };
        let timeout = (until != Time::NEVER).then_some(&time);
        let waited = futex::wait_bitset(&self.word, futex::Flags::PRIVATE, expected, timeout, mask);
        waited != Err(rustix::io::Errno::TIMEDOUT)
    }

    /// Wakes a thread that waits.
    #[inline]
    pub(crate) fn wake_one(&self) {
        assert_not_held();
        // No error is possible for a mapped word.
        let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
    }

    /// Wakes all waiters of one of these bits.
    #[inline]
    pub(crate) fn wake_masked(&self, mask: NonZeroU32) {
        assert_not_held();
        // As above.
        let _ = futex::wake_bitset(&self.word, futex::Flags::PRIVATE, i32::MAX as u32, mask);
    }
}

/// How long a thread may spin.
#[derive(Debug)]
pub(crate) struct Patience(Time);

impl Patience {
    /// From now.
    #[inline]
    pub(crate) fn new(span: Nanos) -> Self {
        Self(monotonic() + span)
    }

    /// Whether to look once more, after a pause.
    #[inline]
    pub(crate) fn lasts(&mut self) -> bool {
        std::hint::spin_loop();
        monotonic() < self.0
    }
}
