//! Handles a closed pipe on standard output, as in `stile ... | head`.
//!
//! Rust's start-up makes a write to a closed pipe fail, and printing would panic. Here such a write ends the program by
//! SIGPIPE, as is usual. A command with guests to stop or a recording to finish gets a flag instead, and ends itself.
#![allow(unsafe_code, reason = "the disposition of a signal: no crate in use sets it back to the default")]

use signal_hook::consts::SIGPIPE;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Makes a write to a closed pipe end the program.
pub(super) fn end_when_closed() {
    // SAFETY: no other thread runs yet, and SIG_DFL is no handler that could be called.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}

/// Makes a write to a closed pipe set this flag instead, and fail.
pub(super) fn tell_when_closed(flag: &Arc<AtomicBool>) -> io::Result<()> {
    signal_hook::flag::register(SIGPIPE, Arc::clone(flag)).map(drop)
}

/// Ends the program as SIGPIPE would.
pub(super) fn end() {
    // If the signal cannot end the program, its exit code does.
    let _ = signal_hook::low_level::emulate_default_handler(SIGPIPE);
}
