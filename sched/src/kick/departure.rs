//! The kick that a thread gives itself by leaving its CPU.
//!
//! A guest that halts inside KVM_RUN tells no thread of it. But its thread leaves its CPU, and the kernel counts that.
//! A counter of context switches that overflows at one sends the kick, and a thread that waits inside KVM_RUN comes out
//! at once. A thread that was only preempted comes out as well, when it runs again.
//!
//! The counter is [armed](Departure::arm) for one switch at a time, so that a thread which waits somewhere else does
//! not pile up signals.
//!
//! The kernel may refuse it (`perf_event_paranoid` above 1 without CAP_PERFMON, or a filter of system calls).
#![allow(unsafe_code, reason = "perf_event_open and fcntl: the dependencies have neither, or not these commands")]

use super::signal::{signal, this_thread};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::{io, ptr};

const TYPE_SOFTWARE: u32 = 1;
const CONTEXT_SWITCHES: u64 = 3;
const FLAG_CLOEXEC: libc::c_ulong = 8;
/// Of `attr.flags`.
const DISABLED: u64 = 1;
const IOC_REFRESH: libc::c_ulong = 0x2402;
const F_SETSIG: i32 = 10;
const F_SETOWN_EX: i32 = 15;
const OWNER_TID: i32 = 0;

/// The kernel's `perf_event_attr` as it was at first, which every later kernel takes.
#[repr(C)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

/// The kernel's `f_owner_ex`.
#[repr(C)]
struct Owner {
    kind: i32,
    id: libc::pid_t,
}

/// Kicks the thread that made it when that leaves its CPU.
#[derive(Debug)]
pub struct Departure(OwnedFd);

impl Departure {
    /// One of the calling thread, not armed.
    pub fn for_this_thread() -> io::Result<Self> {
        let attributes = Attributes {
            kind: TYPE_SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: CONTEXT_SWITCHES,
            sample_period: 1,
            sample_type: 0,
            read_format: 0,
            flags: DISABLED,
            wakeup_events: 1,
            bp_type: 0,
            bp_addr: 0,
        };
        let (this, any_cpu, no_group) = (0, -1, -1);
        // SAFETY: the attributes are initialised, say their size, and outlive the call, which only reads them.
        let fd =
            unsafe { libc::syscall(libc::SYS_perf_event_open, &attributes, this, any_cpu, no_group, FLAG_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call gave a descriptor that nothing else has.
        let departure = Self(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        departure.kicks_this_thread()?;
        Ok(departure)
    }

    fn kicks_this_thread(&self) -> io::Result<()> {
        mask_sigio();
        let owner = Owner { kind: OWNER_TID, id: this_thread().0 };
        let fd = self.0.as_raw_fd();
        // SAFETY: a descriptor of our own; the owner is initialised and outlives the call, which only reads it.
        let failed = unsafe {
            libc::fcntl(fd, F_SETOWN_EX, &owner) == -1
                || libc::fcntl(fd, F_SETSIG, signal()) == -1
                || libc::fcntl(fd, libc::F_SETFL, libc::O_ASYNC | libc::O_NONBLOCK) == -1
        };
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// The next time that the thread leaves its CPU kicks it; later ones do not. By that thread.
    pub(crate) fn arm(&self) {
        // SAFETY: a descriptor of our own; the argument is a number.
        let failed = unsafe { libc::ioctl(self.0.as_raw_fd(), IOC_REFRESH as _, 1) };
        debug_assert_eq!(failed, 0, "an event with a period can be refreshed");
    }
}

/// Blocks SIGIO in the calling thread: where the kernel has no memory for a kick it sends that instead, which would end
/// the process.
fn mask_sigio() {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set, and the old mask is not wanted.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGIO);
        libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kick::signal::{block, drain, send, wait};
    use crate::time::Nanos;
    use std::time::Duration;

    /// On a thread of its own, with a departure; not where the host refuses it.
    fn on_thread(test: impl FnOnce(Departure) + Send + 'static) {
        let run = move || {
            block();
            match Departure::for_this_thread() {
                Ok(departure) => test(departure),
                Err(refused) => eprintln!("SKIPPED: {refused}"),
            }
        };
        std::thread::spawn(run).join().unwrap();
    }

    #[test]
    fn a_thread_that_leaves_its_cpu_is_kicked_once_for_each_arming() {
        on_thread(|departure| {
            std::thread::sleep(Duration::from_millis(1));
            assert!(!drain(), "not armed");
            for _ in 0..3 {
                departure.arm();
                std::thread::sleep(Duration::from_millis(1));
                std::thread::sleep(Duration::from_millis(1));
                assert!(wait(Nanos::ZERO) && !wait(Nanos::ZERO));
            }
        });
    }

    #[test]
    fn a_departure_is_told_from_other_kicks() {
        on_thread(|departure| {
            send(this_thread());
            assert!(!drain());
            departure.arm();
            std::thread::sleep(Duration::from_millis(1));
            send(this_thread());
            assert!(drain());
            assert!(!drain());
        });
    }

    /// Or else it would be taken for the next one's, and each halt would cost an exit more from then on.
    #[test]
    fn a_departure_behind_another_kick_is_taken_with_it() {
        on_thread(|departure| {
            send(this_thread());
            departure.arm();
            std::thread::sleep(Duration::from_millis(1));
            assert!(drain());
            assert!(!wait(Nanos::ZERO));
        });
    }
}
