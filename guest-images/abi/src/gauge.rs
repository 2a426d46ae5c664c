//! Counters in guest memory that the monitor reads while the guest runs, without an exit and without the guest's help.
//!
//! A measured window is the difference of two readings. So no counter is ever reset, and a vCPU that makes no progress
//! at all is seen as such.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Buckets below this value (units: ns) are one apart; above, each power of two has [`SUB`] buckets.
const SUB: u64 = 32;
const SUB_BITS: u32 = SUB.trailing_zeros();
/// Number of buckets: enough for 2^40 ns, some 18 minutes; longer times count in the last one.
pub const BUCKETS: usize = ((40 - SUB_BITS as usize) + 1) * SUB as usize;

/// The shortest time that counts as a gap (unit: ns): several times what an exit takes, and the pieces of computing
/// between two looks at the clock.
pub const GAP_LEAST_NS: u64 = 100_000;

/// One vCPU's counters. Only that vCPU writes, with relaxed stores; the monitor only reads.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Gauge {
    /// Operations done: locks taken, messages received, requests answered, loop iterations.
    pub ops: AtomicU64,
    /// Payload moved (units: bytes).
    pub bytes: AtomicU64,
    /// Operations that failed.
    pub errors: AtomicU64,
    /// When the present wait began (unit: TSC ticks; a time to come: when it will begin), 0 while there is none. A wait
    /// that has not ended is in no histogram. Without this word, a vCPU that is never served at all would leave no
    /// trace.
    pub waits_since: AtomicU64,
    /// What the guest last read of its [`Steal`](crate::Steal).
    pub steal_seen: AtomicU64,
    /// The workload's own use.
    pub spare: [AtomicU64; 3],
    /// Log-linear histogram of waits or responses; see [`bucket_of`].
    pub latency: [AtomicU32; BUCKETS],
    /// When the vCPU last looked at the clock while it computes (unit: TSC ticks), 0 while it does not. Since it looks
    /// every few microseconds, it does not run if that is long ago.
    pub looked: AtomicU64,
    /// Histogram of the vCPU's gaps, in the same buckets: times of [`GAP_LEAST_NS`] or more for which it did not run
    /// though it computed, or its deadline had passed.
    pub gaps: [AtomicU32; BUCKETS],
}

impl Gauge {
    /// A wait or response begins at this time of the TSC.
    pub fn begin(&self, tsc: u64) {
        self.waits_since.store(tsc, Relaxed);
    }

    /// Counts one wait or response of `ns` nanoseconds, which ends the one that began.
    pub fn record(&self, ns: u64) {
        self.waits_since.store(0, Relaxed);
        Self::count(&self.latency, ns);
    }

    /// Counts a time for which the vCPU did not run, if it is long enough.
    pub fn record_gap(&self, ns: u64) {
        if ns >= GAP_LEAST_NS {
            Self::count(&self.gaps, ns);
        }
    }

    /// Counts `n` operations.
    pub fn add_ops(&self, n: u64) {
        Self::add(&self.ops, n);
    }

    /// Counts `n` bytes of payload.
    pub fn add_bytes(&self, n: u64) {
        Self::add(&self.bytes, n);
    }

    /// Counts `n` operations that failed.
    pub fn add_errors(&self, n: u64) {
        Self::add(&self.errors, n);
    }

    /// Adds to a word of the workload's own.
    pub fn add_spare(&self, word: usize, n: u64) {
        Self::add(&self.spare[word], n);
    }

    fn count(histogram: &[AtomicU32; BUCKETS], ns: u64) {
        let bucket = &histogram[bucket_of(ns)];
        bucket.store(bucket.load(Relaxed).wrapping_add(1), Relaxed);
    }

    fn add(counter: &AtomicU64, n: u64) {
        counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
    }
}

/// The bucket of a time of `ns` nanoseconds; relative width at most 1/32.
pub const fn bucket_of(ns: u64) -> usize {
    if ns < SUB {
        return ns as usize;
    }
    let exponent = 63 - ns.leading_zeros();
    let sub = (ns >> (exponent - SUB_BITS)) - SUB;
    let bucket = (exponent - SUB_BITS + 1) as u64 * SUB + sub;
    if bucket < BUCKETS as u64 { bucket as usize } else { BUCKETS - 1 }
}

/// The longest time (units: ns) that falls into this bucket.
pub const fn bucket_top(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    let exponent = bucket / SUB - 1;
    ((SUB + bucket % SUB + 1) << exponent) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_cover_their_times() {
        for bucket in 0..BUCKETS - 1 {
            let top = bucket_top(bucket);
            assert_eq!(bucket_of(top), bucket);
            assert_eq!(bucket_of(top + 1), bucket + 1);
        }
    }

    #[test]
    fn relative_width_is_at_most_one_in_thirty_two() {
        for bucket in SUB as usize..BUCKETS - 1 {
            let (below, top) = (bucket_top(bucket - 1), bucket_top(bucket));
            assert!((top - below) as f64 / top as f64 <= 1.0 / 32.0);
        }
    }

    #[test]
    fn very_long_times_count_in_the_last_bucket() {
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }
}
