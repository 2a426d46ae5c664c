//! Ctrl-C and SIGTERM.
#![allow(unsafe_code, reason = "a handler of signals that ends the program at once")]

use super::failure::Failure;
use super::terminal::end_at_once;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A second signal that comes this soon after the first may be the same key, sent to the process and to its group
/// (unit: ms).
const SAME_KEY: u64 = 200;

/// A flag that Ctrl-C and SIGTERM set. A second one changes nothing.
pub(super) fn on_interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(Failure::run)?;
    }
    Ok(flag)
}

/// Like [`on_interrupt`], but a second signal ends the program at once, whatever it waits for.
pub(super) fn on_interrupt_or_end() -> Result<Arc<AtomicBool>, Failure> {
    static FIRST: AtomicU64 = AtomicU64::new(0);
    let handle = || {
        let now = clock_gettime(ClockId::Monotonic);
        let now = now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000;
        // Relaxed: the time stands for itself. A process whose clock reads 0 is younger than any second signal.
        if let Err(first) = FIRST.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
            && now.saturating_sub(first) > SAME_KEY
        {
            end_at_once();
        }
    };
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // SAFETY: the handler reads a clock, restores the terminal by a system call and ends the process. All of that
        // may be done in a handler.
        unsafe { signal_hook::low_level::register(signal, handle) }.map_err(Failure::run)?;
    }
    on_interrupt()
}
