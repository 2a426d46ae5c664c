//! A moment that a vCPU stays outside its guest although its slot is its own.

use crate::sync::hint;
use crate::time::{Nanos, monotonic};

/// Lets this time pass, or what is left of it when the slot is wanted. It is shorter than going to sleep and coming
/// back, so the thread keeps its CPU.
pub(super) fn pause(time: Nanos, wanted: impl Fn() -> bool) {
    if time == Nanos::ZERO {
        return;
    }
    let end = monotonic() + time;
    while monotonic() < end && !wanted() {
        hint::spin_loop();
    }
}
