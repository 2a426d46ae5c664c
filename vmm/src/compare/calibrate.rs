//! How fast this host runs the guests' work loop.

use std::time::Instant;

/// Iterations of the work loop in a microsecond, undisturbed: the best of several tries, since anything else the host
/// does can only make it slower. All VMs of a run get the same figure, and so do the same work.
pub(super) fn loops_per_us() -> u64 {
    const LOOPS: u64 = 1_000_000;
    const TRIES: usize = 20;
    let best = (0..TRIES)
        .map(|_| {
            let start = Instant::now();
            stile_abi::work::spin(LOOPS);
            start.elapsed().as_nanos() as u64
        })
        .min();
    (LOOPS * 1000 / best.unwrap_or(LOOPS).max(1)).max(1)
}
