//! The class that a vCPU's thread has on the host when the host's scheduler decides.
//!
//! It serves the baseline: its threads get the host's own class of the same name, so that a comparison compares like
//! with like. [`enter`] changes the calling thread only and never falls back to another class: a baseline that quietly
//! ran `rt` guests as normal ones would be measured as something it is not.
#![allow(unsafe_code, reason = "sched_setscheduler: rustix has none of it")]

use crate::attributes::Class;
use crate::kick::ThreadId;
use std::io;

/// The priority of `rt` threads on the host, the lowest there is: enough to run before all others, and the kernel's own
/// real-time threads stay ahead.
const RT_PRIORITY: i32 = 1;

/// The host's policy and priority for a class.
fn on_host(class: Class) -> (&'static str, i32, i32) {
    match class {
        Class::Normal => ("SCHED_OTHER", libc::SCHED_OTHER, 0),
        Class::Batch => ("SCHED_BATCH", libc::SCHED_BATCH, 0),
        Class::Idle => ("SCHED_IDLE", libc::SCHED_IDLE, 0),
        Class::Rt => ("SCHED_RR", libc::SCHED_RR, RT_PRIORITY),
    }
}

/// The name of the host's class, for an error.
pub(super) fn host_name(class: Class) -> &'static str {
    on_host(class).0
}

/// The host's class of threads about which a scheduler of sched_ext decides.
const SCHED_EXT: i32 = 7;

/// Puts the calling thread into the host's class of this name.
pub(super) fn enter(class: Class) -> io::Result<()> {
    let (_, policy, priority) = on_host(class);
    set(policy, priority)
}

/// Puts the calling thread into the class SCHED_EXT. While no scheduler of that kind is loaded it is a normal thread.
pub(super) fn enter_ext() -> io::Result<()> {
    set(SCHED_EXT, 0)
}

/// Makes a thread of this process a normal one with nice value 0.
///
/// # Errors
/// The host does not permit it.
pub(super) fn raise(thread: ThreadId) -> io::Result<()> {
    // A model's threads have numbers of its own.
    if cfg!(all(test, shuttle)) {
        return Ok(());
    }
    set_of(thread.0, libc::SCHED_OTHER, 0)?;
    Ok(rustix::process::setpriority_process(rustix::process::Pid::from_raw(thread.0), 0)?)
}

fn set(policy: i32, sched_priority: i32) -> io::Result<()> {
    set_of(0, policy, sched_priority)
}

/// 0 is the calling thread.
fn set_of(thread: libc::pid_t, policy: i32, sched_priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: the call reads `parameters`, which is initialised and outlives it.
    match unsafe { libc::sched_setscheduler(thread, policy, &parameters) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The host's policy of a thread.
#[cfg(test)]
pub(super) fn policy_of(thread: ThreadId) -> i32 {
    // SAFETY: no precondition.
    unsafe { libc::sched_getscheduler(thread.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The host's policy of a thread that entered the class.
    fn entered(class: Class) -> io::Result<i32> {
        let attempt = move || {
            enter(class)?;
            Ok(policy_of(ThreadId(0)))
        };
        std::thread::spawn(attempt).join().unwrap()
    }

    #[test]
    fn a_thread_that_enters_a_class_is_in_the_hosts_class_of_that_name() {
        assert_eq!(entered(Class::Normal).unwrap(), libc::SCHED_OTHER);
        assert_eq!(entered(Class::Batch).unwrap(), libc::SCHED_BATCH);
        assert_eq!(entered(Class::Idle).unwrap(), libc::SCHED_IDLE);
    }

    #[test]
    fn the_rt_class_is_entered_or_refused_and_nothing_else() {
        match entered(Class::Rt) {
            Ok(policy) => assert_eq!(policy, libc::SCHED_RR),
            Err(refused) => assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied),
        }
    }
}
