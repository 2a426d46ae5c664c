//! What the running kernel offers for a jail.
#![allow(unsafe_code, reason = "the version of Landlock's interface: the crate keeps it to itself")]

use std::fs;
use std::ptr;

/// Asks landlock_create_ruleset(2) for the version instead (linux/landlock.h).
const CREATE_RULESET_VERSION: libc::c_uint = 1;

/// The parts of a jail that not every kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Offer {
    /// It filters system calls.
    pub filters: bool,
    /// Version of Landlock's interface; `None`: it is not there or off.
    pub landlock: Option<i32>,
}

impl Offer {
    /// Asks the kernel.
    pub fn of_kernel() -> Self {
        Self { filters: has_filters(), landlock: landlock() }
    }
}

/// The kernel lists the ends of a filter that it knows.
fn has_filters() -> bool {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    ["trap", "errno", "allow"].iter().all(|needed| actions.split_whitespace().any(|action| action == *needed))
}

fn landlock() -> Option<i32> {
    let (no_attributes, no_size) = (ptr::null::<libc::c_void>(), 0usize);
    // SAFETY: with this flag the kernel reads nothing and makes nothing.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, no_attributes, no_size, CREATE_RULESET_VERSION) };
    i32::try_from(version).ok().filter(|version| *version > 0)
}
