//! The kick: a signal that makes a vCPU return from KVM_RUN, and cannot be lost.
//!
//! Protocol:
//! 1. Every thread that runs vCPUs blocks [`signal`] for its whole life ([`block`]).
//! 2. The kernel unblocks it only while the thread is inside KVM_RUN (KVM_SET_SIGNAL_MASK on the vCPU), so a signal
//!    that arrives before KVM_RUN is pending and ends it at once, and one that arrives after is there for the next.
//! 3. After a kick the thread takes the signal out ([`drain`]), so the signal's handler does not run there.
//! 4. A kick may come to a thread that has ended, and whose number another thread of the process has by now. There the
//!    handler runs, and does nothing: without one, the signal would end the process.
//!
//! A kick says only "look again": one that reaches the thread after it has moved on costs an exit and no more.
//!
//! A thread that waits inside KVM_RUN is also to be kicked because it does: see
//! [`Departure`](super::departure::Departure).
#![allow(unsafe_code, reason = "signals of one thread: rustix has none of it")]

use crate::sync::held::assert_not_held;
use crate::time::Nanos;
use std::mem::MaybeUninit;
use std::sync::{LazyLock, Once};
use std::{io, ptr};

/// The signal number.
pub fn signal() -> i32 {
    libc::SIGRTMIN() + 3
}

/// A thread that can be kicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadId(pub libc::pid_t);

thread_local! {
    /// A wake asks for it, so that it costs no system call each time.
    // SAFETY: no precondition.
    static THIS_THREAD: ThreadId = ThreadId(unsafe { libc::gettid() });
}

/// The calling thread.
pub fn this_thread() -> ThreadId {
    THIS_THREAD.with(|thread| *thread)
}

fn set() -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigemptyset initialises the set; the signal number is valid.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal());
        set.assume_init()
    }
}

/// Blocks the signal in the calling thread. To be called before any thread may kick it.
pub fn block() {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(handle);
    // SAFETY: a valid set; the old mask is not wanted.
    let failed = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set(), ptr::null_mut()) };
    debug_assert_eq!(failed, 0, "SIG_BLOCK with a valid set cannot fail");
}

/// Gives the signal a handler for threads that do not block it. The signal cannot be ignored instead: the kernel would
/// drop a kick of a thread inside KVM_RUN.
fn handle() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: all-zero is a valid sigaction; the fields that matter follow.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = nothing as *const () as libc::sighandler_t;
    // A system call of that thread goes on.
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action is valid, and its handler does nothing.
    let failed = unsafe { libc::sigaction(signal(), &action, ptr::null_mut()) };
    debug_assert_eq!(failed, 0, "the signal may have a handler");
}

/// Takes the pending kicks of the calling thread out, up to one of its [`Departure`](super::departure::Departure). True
/// if there was one of that.
///
/// Kicks queue. Behind that of a departure there is hardly ever another one, and one that is left costs an exit. Behind
/// any other one there may be that of the departure: left there, it would be taken in place of the next one, and so on
/// for good, each time for an exit.
pub fn drain() -> bool {
    while let Some(of_departure) = take(Nanos::ZERO) {
        if of_departure {
            return true;
        }
    }
    false
}

/// Waits for a kick, and takes it out. False: none came within this time.
pub fn wait(at_most: Nanos) -> bool {
    take(at_most).is_some()
}

/// Takes a kick out, and tells whether it was of a departure.
fn take(at_most: Nanos) -> Option<bool> {
    assert_not_held();
    let set = set();
    let time = libc::timespec {
        tv_sec: (at_most.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (at_most.0 % 1_000_000_000) as libc::c_long,
    };
    let mut information = MaybeUninit::<libc::siginfo_t>::uninit();
    // SAFETY: valid set and time, and room for the information.
    if unsafe { libc::sigtimedwait(&set, information.as_mut_ptr(), &time) } <= 0 {
        return None;
    }
    // SAFETY: a signal was taken, so the kernel has filled it in.
    let code = unsafe { information.assume_init().si_code };
    // Above 0 are the reasons of descriptors; timers and threads are below.
    Some(code > 0)
}

/// Whether a kick of the calling thread is pending, which [`block`] has been called on. It stays pending.
///
/// KVM_RUN ends by itself when a kick arrives. A [`Vcpu`](crate::Vcpu) made of other work calls this now and then, and
/// returns [`Stop::Kicked`](crate::Stop::Kicked) if it is true. Cost: one system call.
pub fn is_pending() -> bool {
    let mut set = MaybeUninit::uninit();
    // SAFETY: sigpending initialises the set.
    unsafe {
        libc::sigpending(set.as_mut_ptr());
        libc::sigismember(set.as_ptr(), signal()) == 1
    }
}

/// Kicks a thread of this process. One that has ended is ignored.
pub fn send(thread: ThreadId) {
    assert_not_held();
    // A kick asks for it, so that it costs no system call each time. No process that kicks forks.
    // SAFETY: no precondition.
    static PROCESS: LazyLock<libc::pid_t> = LazyLock::new(|| unsafe { libc::getpid() });
    // SAFETY: the target is a thread of this process or gone.
    unsafe { libc::syscall(libc::SYS_tgkill, *PROCESS, thread.0, signal()) };
}

/// A timer that kicks the thread that made it.
#[derive(Debug)]
pub struct Timer(libc::timer_t);

// SAFETY: a timer id is a number of the whole process; every operation on it is a system call.
unsafe impl Send for Timer {}
// SAFETY: as above.
unsafe impl Sync for Timer {}

impl Timer {
    /// A disarmed timer of the calling thread.
    pub fn for_this_thread() -> io::Result<Self> {
        // SAFETY: all-zero is a valid sigevent; the fields that matter follow.
        let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal();
        event.sigev_notify_thread_id = this_thread().0;
        let mut id = ptr::null_mut();
        // SAFETY: valid event and a place for the id.
        if unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut id) } == 0 {
            Ok(Self(id))
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// Kicks at this point of CLOCK_MONOTONIC, or at once if it has passed; an earlier setting is forgotten.
    pub fn set(&self, at: crate::time::Time) {
        assert_not_held();
        // 0 would disarm.
        let at = at.0.max(1);
        let value = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec {
                tv_sec: (at / 1_000_000_000) as libc::time_t,
                tv_nsec: (at % 1_000_000_000) as libc::c_long,
            },
        };
        // SAFETY: the timer lives as long as `self`; the value is valid.
        let failed = unsafe { libc::timer_settime(self.0, libc::TIMER_ABSTIME, &value, ptr::null_mut()) };
        debug_assert_eq!(failed, 0);
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: made by timer_create, deleted once.
        unsafe { libc::timer_delete(self.0) };
    }
}

/// Readable while a kick of the thread that reads is pending, for vCPUs of tests that wait for one.
#[cfg(test)]
pub(crate) fn pending_kicks() -> io::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: a valid set; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &set(), libc::SFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call gave a descriptor that nothing else has.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kick_stays_pending_until_it_is_drained() {
        std::thread::spawn(|| {
            block();
            assert!(!is_pending());
            send(this_thread());
            send(this_thread());
            drain();
            assert!(!is_pending(), "both are out");
            drain();
        })
        .join()
        .unwrap();
    }

    /// As does a thread that has got the number of one that ran vCPUs.
    #[test]
    fn a_thread_that_runs_no_vcpus_outlives_a_kick() {
        std::thread::spawn(block).join().unwrap();
        std::thread::spawn(|| {
            send(this_thread());
            assert!(!is_pending(), "the kick has come");
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_timer_set_in_the_past_kicks_at_once() {
        std::thread::spawn(|| {
            block();
            let timer = Timer::for_this_thread().unwrap();
            timer.set(crate::time::Time(1));
            // Delivery is by the kernel's timer interrupt: wait for the signal itself.
            // SAFETY: valid set and time.
            let got =
                unsafe { libc::sigtimedwait(&set(), ptr::null_mut(), &libc::timespec { tv_sec: 10, tv_nsec: 0 }) };
            assert_eq!(got, signal());
        })
        .join()
        .unwrap();
    }
}
