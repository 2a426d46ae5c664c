//! What happens when nobody reads any more: `stile ... | head`.
#![allow(unsafe_code, reason = "the disposition of a signal: no crate in use sets it back to the default")]

/// Lets a write to a closed pipe end the program, as it ends others; Rust's start-up has it fail instead, and printing
/// would panic.
pub(super) fn end_when_closed() {
    // SAFETY: no other thread runs yet, and SIG_DFL is no handler that could be called.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
    }
}
