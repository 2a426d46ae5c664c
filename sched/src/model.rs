//! What shuttle does not model: time, and the kicks and timers that a vCPU's thread gets from the kernel.
//!
//! Time is a counter that moves on, by a random step, whenever somebody looks at it: a thread may be held up anywhere
//! for any time. Everything here belongs to one run of one model and is new in the next. The lock inside is never
//! contended, since shuttle switches threads only where a primitive of its own is used.

use shuttle::rand::Rng;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most that one look at the clock takes (unit: ns). Some looks make a lease.
const STEP: u64 = 20_000;

shuttle::lazy_static! {
    static ref CLOCK: AtomicU64 = AtomicU64::new(1);
}

/// The clock of the model (unit: ns).
pub(crate) fn clock() -> u64 {
    let step = random(STEP);
    CLOCK.fetch_add(step, Ordering::Relaxed) + step
}

/// A number below `bound`, the same when a schedule is replayed.
pub(crate) fn random(bound: u64) -> u64 {
    shuttle::rand::thread_rng().gen_range(0..bound)
}
