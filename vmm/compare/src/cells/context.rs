//! The state that the cells of a run share.

use crate::plan::options::Options;
use kvm_ioctls::Kvm;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use stile_host::frequency;
use stile_results::moment::Moment;
use stile_sched::Nanos;

/// The longest that a wait goes on after the user has ended the run.
const END_NOTICED_WITHIN: Duration = Duration::from_millis(50);

/// What a cell needs besides its plan.
pub(crate) struct Context<'a> {
    pub(crate) kvm: &'a Kvm,
    pub(crate) options: &'a Options,
    pub(crate) loops_per_us: u64,
    interrupted: &'a AtomicBool,
    /// The CPUs' frequency at the end of the latest wait, while guests ran.
    pub(crate) mhz: Mutex<Option<f64>>,
    /// The longest wait so far under each policy.
    worst: Mutex<Vec<Nanos>>,
    /// The vCPUs that ran during the cell's longest wait, if that wait is the longest so far.
    pub(crate) moment: Mutex<Option<Moment>>,
}

impl<'a> Context<'a> {
    /// Makes the context of a run with these options, which ends early when `interrupted` is set.
    pub(crate) fn new(kvm: &'a Kvm, options: &'a Options, interrupted: &'a AtomicBool) -> Self {
        Self {
            kvm,
            options,
            loops_per_us: loops_per_us(),
            interrupted,
            mhz: Mutex::default(),
            worst: Mutex::new(vec![Nanos::ZERO; options.policies.len()]),
            moment: Mutex::default(),
        }
    }

    /// Whether a wait is the longest so far under this policy. Keeps it if it is.
    pub(crate) fn is_worst(&self, policy: usize, wait: Nanos) -> bool {
        let worst = &mut self.worst.lock()[policy];
        let is = wait > *worst;
        *worst = wait.max(*worst);
        is
    }

    /// Sleeps for this time. Returns false if the user ended the run meanwhile.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return false;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                *self.mhz.lock() = frequency(&self.options.pcpus);
                return true;
            }
            std::thread::sleep(left.min(END_NOTICED_WITHIN));
        }
    }
}

/// Iterations of the work loop in a microsecond: the best of several tries, since disturbances by the host only make it
/// slower. All VMs of a run get the same number, and so do equal work.
fn loops_per_us() -> u64 {
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
