//! One thread waits, others wake it: a futex word that remembers a wake for which no thread waited.
//!
//! States: empty, waiting, woken. [`Parker::wake`] stores *woken* and calls the kernel only if it replaced *waiting*.
//! [`Parker::wait`] consumes *woken*; so a wake before the wait makes it return at once, and wakes do not add up.
//!
//! A thread may also wait elsewhere, where only a kick reaches it. From `leave` to `back` it is *away*, and a thread
//! that wakes it is told so.

use crate::sync::{Futex, Ordering};
use crate::time::Time;

const EMPTY: u32 = 0;
const WAITING: u32 = 1;
const WOKEN: u32 = 2;
const AWAY: u32 = 3;

/// The word. One thread may wait at a time.
#[derive(Debug, Default)]
pub struct Parker(Futex);

impl Parker {
    /// Waits for a wake or until `until` of CLOCK_MONOTONIC. True if woken, false if the time came first.
    #[inline]
    pub fn wait(&self, until: Time) -> bool {
        // Acquire pairs with the Release in wake: what the waker wrote is seen.
        if self.take() {
            return true;
        }
        if self.0.word.compare_exchange(EMPTY, WAITING, Ordering::Acquire, Ordering::Acquire).is_err() {
            return self.take();
        }
        // Relaxed: the swap below sees what the waker wrote.
        while self.0.word.load(Ordering::Relaxed) == WAITING && self.0.wait(WAITING, until) {}
        // A wake may have come after the timeout: it counts.
        self.0.word.swap(EMPTY, Ordering::Acquire) == WOKEN
    }

    /// Takes a wake that has come, without waiting.
    #[inline]
    pub(crate) fn take(&self) -> bool {
        self.0.word.compare_exchange(WOKEN, EMPTY, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Wakes the waiting thread, or the next one to wait. True: it waits elsewhere, and the caller kicks it.
    #[inline]
    pub fn wake(&self) -> bool {
        // Release pairs with the Acquires in wait and back.
        let before = self.0.word.swap(WOKEN, Ordering::Release);
        if before == WAITING {
            self.0.wake_one();
        }
        before == AWAY
    }

    /// The thread is about to wait elsewhere. False: a wake has come, and is taken.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        let left = self.0.word.compare_exchange(EMPTY, AWAY, Ordering::Acquire, Ordering::Acquire).is_ok();
        if !left {
            self.take();
        }
        left
    }

    /// The thread has come back. True if it was woken meanwhile; a kick is on its way then, or has come.
    #[inline]
    pub(crate) fn back(&self) -> bool {
        self.0.word.swap(EMPTY, Ordering::Acquire) == WOKEN
    }
}

#[cfg(all(test, not(loom)))]
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
        let until = monotonic() + crate::time::Nanos::from_micros(200);
        assert!(!Parker::default().wait(until));
        assert!(monotonic() >= until);
    }

    #[test]
    fn who_wakes_a_thread_that_waits_elsewhere_is_told_once() {
        let parker = Parker::default();
        assert!(parker.leave());
        assert!(parker.wake() && !parker.wake());
        assert!(parker.back());
        assert!(parker.leave() && !parker.back());
        assert!(!parker.wake());
        assert!(!parker.leave() && !parker.take(), "the wake was taken");
    }

    #[test]
    fn a_thousand_wakes_between_two_threads_are_all_seen() {
        let (ping, pong) = (Parker::default(), Parker::default());
        std::thread::scope(|s| {
            s.spawn(|| {
                (0..1000).for_each(|_| {
                    assert!({
                        ping.wait(Time::NEVER) && {
                            pong.wake();
                            true
                        }
                    })
                })
            });
            for _ in 0..1000 {
                ping.wake();
                assert!(pong.wait(Time::NEVER));
            }
        });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU32;
    use loom::thread;

    /// Wakers raise a number and wake; the waiter waits in this way. What it has not seen by then must be remembered.
    fn model(wakers: u32, wait: impl Fn(&Parker) + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        // All schedules of three threads take a minute; nearly all bugs need fewer switches than this.
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let shared = Arc::new((Parker::default(), AtomicU32::new(0)));
            let threads: Vec<_> = (0..wakers)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        shared.1.fetch_add(1, Ordering::Relaxed);
                        shared.0.wake();
                    })
                })
                .collect();
            wait(&shared.0);
            let seen = shared.1.load(Ordering::Relaxed);
            threads.into_iter().for_each(|waker| waker.join().unwrap());
            assert!(seen > 0 && (seen == wakers || shared.0.take()), "{seen} of {wakers} seen, no wake remembered");
        });
    }

    #[test]
    fn loom_a_wake_ends_the_wait_and_shows_what_was_written_before_it() {
        model(1, |parker| assert!(parker.wait(Time::NEVER)));
    }

    #[test]
    fn loom_a_wake_stops_a_thread_from_leaving_or_kicks_it_or_is_seen_when_it_is_back() {
        loom::model(|| {
            let shared = Arc::new((Parker::default(), AtomicU32::new(0)));
            let waker = thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    shared.1.store(1, Ordering::Relaxed);
                    shared.0.wake()
                }
            });
            let left = shared.0.leave();
            let seen = if left { shared.0.back() } else { true };
            assert!(!seen || shared.1.load(Ordering::Relaxed) == 1);
            let kicks = waker.join().unwrap();
            assert!(!kicks || (left && seen), "a kick that is not needed");
            assert!(seen || shared.0.take(), "lost");
        });
    }

    #[test]
    fn loom_of_two_wakes_each_is_seen_or_remembered() {
        model(2, |parker| assert!(parker.wait(Time::NEVER)));
    }

    #[test]
    fn loom_a_wake_that_meets_a_timeout_is_returned_or_remembered() {
        model(1, |parker| {
            if !parker.wait(Time(1)) {
                assert!(parker.wait(Time::NEVER));
            }
        });
    }
}
