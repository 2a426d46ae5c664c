//! One thread waits, others wake it: a futex word that remembers a wake nobody waited for.
//!
//! States: empty, waiting, woken. [`Parker::wake`] stores *woken* and calls the kernel only if it replaced *waiting*.
//! [`Parker::wait`] consumes *woken*; so a wake before the wait makes it return at once, and wakes do not add up.

use crate::Time;
use rustix::thread::futex;
use rustix::time::Timespec;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering};

const EMPTY: u32 = 0;
const WAITING: u32 = 1;
const WOKEN: u32 = 2;

/// The word. One thread may wait at a time.
#[derive(Debug, Default)]
pub struct Parker(AtomicU32);

impl Parker {
    /// Waits for a wake or until `until` of CLOCK_MONOTONIC. True if woken, false if the time came first.
    pub fn wait(&self, until: Time) -> bool {
        // Acquire pairs with the Release in wake: what the waker wrote is seen.
        if self.take() {
            return true;
        }
        if self.0.compare_exchange(EMPTY, WAITING, Ordering::Acquire, Ordering::Acquire).is_err() {
            return self.take();
        }
        let timeout = Timespec {
            tv_sec: (until.0 / 1_000_000_000) as i64,
            tv_nsec: (until.0 % 1_000_000_000) as i64,
        };
        let timeout = (until != Time::NEVER).then_some(&timeout);
        while self.0.load(Ordering::Acquire) == WAITING {
            let waited = futex::wait_bitset(&self.0, futex::Flags::PRIVATE, WAITING, timeout, NonZeroU32::MAX);
            if waited == Err(rustix::io::Errno::TIMEDOUT) {
                break;
            }
        }
        // A wake may have come after the timeout: it counts.
        self.0.swap(EMPTY, Ordering::Acquire) == WOKEN
    }

    /// Takes a wake that has come, without waiting.
    pub fn take(&self) -> bool {
        self.0.compare_exchange(WOKEN, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Wakes the waiting thread, or the next one to wait.
    pub fn wake(&self) {
        // Release pairs with the Acquires in wait.
        if self.0.swap(WOKEN, Ordering::Release) == WAITING {
            // No error is possible for a mapped word.
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::monotonic;

    #[test]
    fn a_wake_before_the_wait_is_remembered_once() {
        let parker = Parker::default();
        parker.wake();
        parker.wake();
        assert!(parker.wait(Time::NEVER));
        assert!(!parker.wait(Time(1)), "the second wake was the same one");
    }

    #[test]
    fn a_wait_ends_at_its_time() {
        let until = monotonic() + crate::Nanos::from_micros(200);
        assert!(!Parker::default().wait(until));
        assert!(monotonic() >= until);
    }

    #[test]
    fn a_thousand_wakes_between_two_threads_are_all_seen() {
        let (ping, pong) = (Parker::default(), Parker::default());
        std::thread::scope(|s| {
            s.spawn(|| (0..1000).for_each(|_| assert!({ ping.wait(Time::NEVER) && { pong.wake(); true } })));
            for _ in 0..1000 {
                ping.wake();
                assert!(pong.wait(Time::NEVER));
            }
        });
    }
}
