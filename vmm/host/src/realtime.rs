//! Whether this process may use the host's real-time scheduling class.
//!
//! Under leases, a vCPU asks for its pCPU under SCHED_FIFO when its deadline comes, for a bounded time. Permission
//! depends on a capability, a resource limit and the cgroup, so that only a try can tell.
#![allow(unsafe_code)] // sched_setscheduler has no safe wrapper among the project's dependencies

use std::io;

use serde::Serialize;

use super::root::HostRoot;

/// Lowest real-time priority: enough to run before every ordinary thread.
const LOWEST_PRIORITY: i32 = 1;

/// Real-time scheduling on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RealtimeFacts {
    /// Why SCHED_FIFO is refused; `None`: it is permitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// CPU time that real-time threads may use per period (units: us, -1: all of it).
    pub runtime_us: Option<i64>,
    /// Length of that period (units: us).
    pub period_us: Option<i64>,
}

impl RealtimeFacts {
    /// Reads the limits of the host at `root`. `refused` is the result of [`try_fifo`].
    pub(super) fn read(root: &HostRoot, refused: Option<String>) -> Self {
        Self {
            refused,
            runtime_us: root.value("/proc/sys/kernel/sched_rt_runtime_us"),
            period_us: root.value("/proc/sys/kernel/sched_rt_period_us"),
        }
    }
}

/// Takes SCHED_FIFO on the calling thread, and gives it back.
pub(super) fn try_fifo() -> io::Result<()> {
    set_class(libc::SCHED_FIFO, LOWEST_PRIORITY)?;
    set_class(libc::SCHED_OTHER, 0)
}

/// Puts the calling thread into a scheduling class.
fn set_class(class: i32, priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` is an initialised sched_param that outlives the call, which only reads it; pid 0 is the
    // calling thread.
    match unsafe { libc::sched_setscheduler(0, class, &parameters) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}
