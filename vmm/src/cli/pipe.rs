//! What happens when nobody reads any more: `stile ... | head`.
//!
//! Rust's start-up has a write to a closed pipe fail, and printing would panic. Here it ends the program at once, as it
//! ends others; but one that has guests to stop or a recording to finish is told of it and ends itself when it has.
#![allow(unsafe_code, reason = "the disposition of a signal: no crate in use sets it back to the default")]

use signal_hook::consts::SIGPIPE;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Lets a write to a closed pipe end the program.
pub(super) fn end_when_closed() {
    // SAFETY: no other thread runs yet, and SIG_DFL is no handler that could be called.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Has a write to a closed pipe set this flag instead, and fail.
pub(super) fn tell_when_closed(flag: &Arc<AtomicBool>) -> io::Result<()> {
    signal_hook::flag::register(SIGPIPE, Arc::clone(flag)).map(drop)
}

/// Ends the program as a write to a closed pipe would have.
pub(super) fn end() {
    // If it cannot be, the exit code tells.
    let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
}
