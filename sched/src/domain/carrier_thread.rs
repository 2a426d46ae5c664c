//! What every thread that runs vCPUs does first.

use super::thread_start;
use crate::ids::Nice;
use crate::kick;

/// Stack of a thread that runs vCPUs (unit: bytes): they only ever call into KVM and devices.
pub(super) const STACK_BYTES: usize = 128 * 1024;

/// What every thread that runs vCPUs does first.
pub(super) fn enter_thread(cpus: &rustix::thread::CpuSet) {
    thread_start::begin();
    kick::block();
    // A model's threads are all one thread of the host.
    if cfg!(all(test, shuttle)) {
        return;
    }
    // The default slack of 50 us would make every timed wait that much late.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    // The CPUs were checked when the domain was configured; one that went offline since leaves the old affinity.
    let _ = rustix::thread::sched_setaffinity(None, cpus);
}

/// Gives the calling thread a nice value; without the right to, a negative one stays 0.
pub(super) fn set_nice(nice: Nice) {
    if nice.get() != 0 && !cfg!(all(test, shuttle)) {
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), nice.get().into());
    }
}
