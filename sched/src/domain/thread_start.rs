//! What a program does first on each thread that a domain starts, such as giving up rights that the thread does not
//! need.

use std::sync::OnceLock;

static HOOK: OnceLock<fn()> = OnceLock::new();

/// From now on each thread that a domain of this process starts calls `hook` first, before it takes part in anything:
/// executors, threads of vCPUs, the watchdog, and threads that keep time. The first hook stays. Threads that ran before
/// do not call it.
pub fn on_thread_start(hook: fn()) {
    // A second hook would bind some threads and not others.
    let _ = HOOK.set(hook);
}

/// To be called by a new thread.
pub(super) fn begin() {
    if let Some(hook) = HOOK.get() {
        hook();
    }
}
