//! The end of a process that made a refused system call: a message, and exit code [`EXIT_CODE`].
//!
//! The kernel sends SIGSYS to the thread that made the call. The handler runs on that thread, in the middle of
//! anything. So it takes no lock and allocates nothing.
//!
//! A thread that has blocked the signal ends the process without the handler, by the signal itself. The C library
//! blocks all signals while it starts a process or a thread.
#![allow(unsafe_code, reason = "a signal handler reads what the kernel tells of the signal, and ends the process")]

use crate::EXIT_CODE;
use crate::error::JailError;
use libc::{c_int, c_void, siginfo_t};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use std::fmt::{self, Write};
use std::sync::OnceLock;
use vmm_sys_util::signal::register_signal_handler;

/// `si_code` of a signal that a filter has sent (asm-generic/siginfo.h).
const SYS_SECCOMP: c_int = 1;
/// Most bytes of a message.
const MESSAGE_MAX: usize = 512;
/// How long standard error may keep the message waiting.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// The kernel keeps 15 characters of a thread's name, and a NUL.
const NAME_BYTES: usize = 16;

/// `AUDIT_ARCH_X86_64` (linux/audit.h).
const X86_64: u32 = 0xc000_003e;

/// The start of `siginfo_t` for SIGSYS (asm-generic/siginfo.h), on a machine with 64 bits.
#[repr(C)]
struct Refused {
    signal: c_int,
    error: c_int,
    code: c_int,
    padding: c_int,
    address: *const c_void,
    call: c_int,
    architecture: u32,
}

static BEFORE_END: OnceLock<fn()> = OnceLock::new();

/// Has refused calls told from now on. `before_end` is called in the handler, after the message.
pub(crate) fn tell_refusals(before_end: Option<fn()>) -> Result<(), JailError> {
    if let Some(before_end) = before_end {
        BEFORE_END.get_or_init(|| before_end);
    }
    register_signal_handler(libc::SIGSYS, handle).map_err(|error| JailError::Rights {
        what: "a handler of refused system calls",
        source: std::io::Error::from_raw_os_error(error.errno()),
    })
}

extern "C" fn handle(_: c_int, information: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel passes the address of a siginfo_t, which for this signal begins like `Refused`.
    let refused = unsafe { &*information.cast::<Refused>() };
    let mut message = Message::default();
    // Text beyond the room is left out.
    let _ = describe(&mut message, refused, &thread_name());
    tell(message.text());
    if let Some(before_end) = BEFORE_END.get() {
        before_end();
    }
    // SAFETY: it ends the process and runs nothing of it.
    unsafe { libc::_exit(EXIT_CODE) }
}

fn describe(message: &mut Message, refused: &Refused, thread: &[u8]) -> fmt::Result {
    let thread = std::str::from_utf8(thread).unwrap_or("?");
    if refused.code != SYS_SECCOMP {
        return writeln!(message, "error: thread `{thread}` got a SIGSYS that no list of the jail has sent");
    }
    write!(message, "error: the jail refused a system call of thread `{thread}`: ")?;
    match (name_of(refused.call), refused.architecture) {
        (Some(name), X86_64) => write!(message, "{name} (number {}, x86-64)", refused.call)?,
        (_, X86_64) => write!(message, "number {}, x86-64", refused.call)?,
        (_, other) => write!(message, "number {}, architecture {other:#x}", refused.call)?,
    }
    writeln!(message, "; stile has a fault there, or was attacked: report it. --no-jail permits it")
}

fn name_of(call: c_int) -> Option<&'static str> {
    usize::try_from(call).ok().and_then(syscalls::x86_64::Sysno::new).map(|call| call.name())
}

/// The calling thread's name.
fn thread_name() -> ThreadName {
    let mut name = [0u8; NAME_BYTES];
    // SAFETY: the kernel writes at most as many bytes as the name has.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    ThreadName(name)
}

struct ThreadName([u8; NAME_BYTES]);

impl std::ops::Deref for ThreadName {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.split(|byte| *byte == 0).next().unwrap_or_default()
    }
}

/// Writes to standard error, if it takes the message in time.
fn tell(text: &[u8]) {
    // SAFETY: standard error is never closed.
    let error = unsafe { BorrowedFd::borrow_raw(libc::STDERR_FILENO) };
    let ready = poll(&mut [PollFd::new(&error, PollFlags::OUT)], Some(&PATIENCE));
    if ready.is_ok_and(|ready| ready > 0) {
        // There is no place left to tell that this fails.
        let _ = rustix::io::write(error, text);
    }
}

/// Text without a heap.
struct Message {
    bytes: [u8; MESSAGE_MAX],
    length: usize,
}

impl Default for Message {
    fn default() -> Self {
        Self { bytes: [0; MESSAGE_MAX], length: 0 }
    }
}

impl Message {
    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl Write for Message {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = &mut self.bytes[self.length..];
        let taken = text.len().min(room.len());
        room[..taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        if taken == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(call: i64, architecture: u32) -> String {
        let address = std::ptr::null();
        let refused =
            Refused { signal: 31, error: 0, code: SYS_SECCOMP, padding: 0, address, call: call as c_int, architecture };
        let mut message = Message::default();
        let _ = describe(&mut message, &refused, b"dev web");
        String::from_utf8(message.text().to_vec()).unwrap()
    }

    #[test]
    fn a_message_names_call_and_thread() {
        let text = told(libc::SYS_ptrace, X86_64);
        assert!(
            text.starts_with("error: the jail refused a system call of thread `dev web`: ptrace (number 101, x86-64)")
        );
        assert!(text.ends_with('\n') && text.contains("--no-jail"));
    }

    #[test]
    fn calls_without_a_name_and_of_other_architectures_are_told_by_number() {
        assert!(told(9999, X86_64).contains("number 9999, x86-64"));
        assert!(told(11, 0x4000_0003).contains("number 11, architecture 0x40000003"));
    }

    #[test]
    fn a_message_that_is_too_long_is_cut() {
        let mut message = Message::default();
        assert!(message.write_str(&"x".repeat(MESSAGE_MAX + 1)).is_err());
        assert_eq!(message.text().len(), MESSAGE_MAX);
    }
}
