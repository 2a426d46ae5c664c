//! What tests of threads need.

/// Host CPUs this process may use.
pub(crate) fn cpus() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect()
}

/// Gives other threads time until `done`; fails after a minute, which no sound run comes near.
pub(crate) fn wait_for(done: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !done() {
        assert!(start.elapsed().as_secs() < 60, "waited for a minute");
        std::thread::yield_now();
    }
}
