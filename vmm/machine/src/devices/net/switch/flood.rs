//! How many frames for many receivers a port may send.
//!
//! Such a frame costs its sender and every other port a copy. A guest needs a few of them: to find its peers'
//! addresses, and for the announcements of its services.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use stile_sched::{Nanos, Time};

/// Frames for many that a port may send in a row.
pub(super) const FLOODS_MAX: u64 = 128;
/// The time after which it may send one more: 128 in a second. There is no configuration key, since no use of a network
/// of guests is known that comes near it.
const PER_FLOOD: Nanos = Nanos(1_000_000_000 / FLOODS_MAX);

/// The allowance of one port, as the time at which all of it will be back (CLOCK_MONOTONIC, unit: ns). Relaxed: the
/// word stands for itself.
#[derive(Debug, Default)]
pub(super) struct FloodLimit(AtomicU64);

impl FloodLimit {
    /// Whether one more frame may be sent now. Counts it if so.
    pub(super) fn admits(&self, now: Time) -> bool {
        let take = |whole: u64| {
            let whole = Time(whole.max(now.0)) + PER_FLOOD;
            (whole.since(now).0 <= PER_FLOOD.0 * FLOODS_MAX).then_some(whole.0)
        };
        self.0.fetch_update(Relaxed, Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_its_allowance_at_once_and_gets_it_back_with_time() {
        let (limit, begin) = (FloodLimit::default(), Time(1 << 40));
        let sent = |at: Time| (0..1000).filter(|_| limit.admits(at)).count() as u64;
        assert_eq!(sent(begin), FLOODS_MAX);
        assert_eq!(sent(begin + PER_FLOOD), 1);
        assert_eq!(sent(begin + Nanos(10 * PER_FLOOD.0)), 9);
        assert_eq!(sent(begin + Nanos::from_millis(60_000)), FLOODS_MAX);
    }
}
