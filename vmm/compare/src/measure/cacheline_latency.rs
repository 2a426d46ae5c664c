//! The time until one CPU sees another one's store. It takes some milliseconds, so that it can be measured often: on a
//! machine that is a guest itself, the host above may move its CPUs apart from one second to the next.

use super::{GLANCES_AT_ONCE, bind, bound, halves, timed};
use rustix::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use stile_results::stats::median;

/// From a store on one CPU until another one that polls for it has seen it (units: ns): half of the time of a store
/// each way, a median.
pub fn hop(from: u32, to: u32) -> io::Result<u64> {
    samples(from, to).map(|samples| median(&samples).unwrap_or(0.0).round() as u64)
}

/// The samples of which [`hop`] returns the median.
pub(super) fn samples(from: u32, to: u32) -> io::Result<Vec<f64>> {
    bound(from, || round_trip(to)).flatten().map(halves)
}

fn round_trip(to: u32) -> io::Result<Vec<f64>> {
    let (ball, over) = (AtomicU32::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let answers = scope.spawn(|| {
            let bound = bind(to);
            while !over.load(Ordering::Relaxed) {
                if ball.load(Ordering::Acquire) == 1 {
                    ball.store(0, Ordering::Release);
                }
            }
            bound
        });
        let round = timed(GLANCES_AT_ONCE, || {
            ball.store(1, Ordering::Release);
            while ball.load(Ordering::Acquire) == 1 {}
        });
        over.store(true, Ordering::Relaxed);
        answers.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok(round)
    })
}
