//! The load of executors: two threads that each ask a policy for some hundred nanoseconds and then run a guest for a
//! microsecond.

use crate::kinds::{Kind, Lock};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// About what asking `rsdl` takes.
const INSIDE: Duration = Duration::from_nanos(300);
/// A guest that yields all the time.
const OUTSIDE: Duration = Duration::from_nanos(1000);
const TURNS: usize = 20_000;

/// The time that every thread takes for its turns.
pub(crate) fn run<K: Kind>() -> Duration {
    let lock = K::lock(());
    let start = Barrier::new(3);
    let mut started = Instant::now();
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                start.wait();
                for _ in 0..TURNS {
                    lock.with(|()| pass(INSIDE));
                    pass(OUTSIDE);
                }
            });
        }
        start.wait();
        started = Instant::now();
    });
    started.elapsed()
}

fn pass(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}
