//! How long a quota is while many vCPUs can run.
//!
//! A fixed quota makes a rotation as long as the run queue. So quotas shrink as it grows: `rr_interval` is what
//! `target_latency x slots / runnable` comes to, at most [`rr_interval`](super::RsdlConfig::rr_interval) and at least
//! [`least_quota`](super::RsdlConfig::least_quota). The idea is CFS' sched_latency and sched_min_granularity (Linux
//! 2.6.23, kernel/sched_fair.c).
//!
//! Rows keep the quotas that `rr_interval` gives: shares and stairs do not change with the queue. What a vCPU runs is
//! charged as so much more, and its lease is as much shorter. Times of rows, of what is used of a quota and of the
//! staircase's clock are *nominal*; leases and charges are *real*.

use super::config::RsdlConfig;
use super::matrix::{LEVELS, Stair};
use crate::time::Nanos;

/// The most vCPUs that could run at a time in the last rotation or so.
///
/// Were it the number of the moment, vCPUs that run in another part of each rotation than others do, as those of class
/// batch, would have other shares: they would run while quotas are shorter, or longer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Crowd {
    most: usize,
    since: Stair,
}

impl Crowd {
    /// So many can run while this stair is served.
    pub(super) fn counts(&mut self, vcpus: usize, served: Stair) {
        if vcpus >= self.most || served >= self.since + LEVELS {
            (self.most, self.since) = (vcpus, served);
        }
    }

    pub(super) fn most(self) -> usize {
        self.most
    }
}

/// The interval in force.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    full: Nanos,
    interval: Nanos,
}

impl Scale {
    pub(super) fn new(config: &RsdlConfig, runnable: usize, slots: usize) -> Self {
        let full = config.rr_interval;
        let fair = Nanos(config.target_latency.0 * slots as u64 / runnable.max(1) as u64);
        Self { full, interval: fair.max(config.least_quota).min(full) }
    }

    /// With this quota for a whole `rr_interval`.
    pub(super) fn of(config: &RsdlConfig, quota: Nanos) -> Self {
        Self { full: config.rr_interval, interval: quota }
    }

    /// What is charged for running so long.
    pub(super) fn nominal(self, real: Nanos) -> Nanos {
        scaled(real, self.full, self.interval)
    }

    /// How long a vCPU can run on so much of its quota.
    pub(super) fn real(self, nominal: Nanos) -> Nanos {
        scaled(nominal, self.interval, self.full)
    }
}

fn scaled(span: Nanos, by: Nanos, of: Nanos) -> Nanos {
    if by == of { span } else { Nanos((u128::from(span.0) * u128::from(by.0)).div_ceil(u128::from(of.0)) as u64) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(runnable: usize, slots: usize) -> Nanos {
        let ms = Nanos::from_millis;
        let config =
            RsdlConfig { rr_interval: ms(6), target_latency: ms(48), least_quota: ms(2), ..RsdlConfig::default() };
        Scale::new(&config, runnable, slots).real(ms(6))
    }

    #[test]
    fn a_quota_is_the_interval_until_the_target_is_reached_and_never_less_than_the_least() {
        let ms = Nanos::from_millis;
        assert_eq!([0, 2, 16].map(|runnable| quota(runnable, 2)), [ms(6); 3]);
        assert_eq!([24, 32, 48, 96].map(|runnable| quota(runnable, 2)), [ms(4), ms(3), ms(2), ms(2)]);
        assert_eq!(quota(24, 3), ms(6));
    }
}
