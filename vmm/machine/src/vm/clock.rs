//! One clock for guests and host: guests read the host's TSC, and this module converts its ticks to CLOCK_MONOTONIC.

use stile_sched::time::monotonic;
use stile_sched::{Nanos, Time};

/// The TSC and its rate.
#[derive(Debug, Clone, Copy)]
pub struct TscClock {
    khz: u32,
}

impl TscClock {
    /// A TSC that ticks at this rate (units: kHz).
    pub fn new(khz: u32) -> Self {
        Self { khz: khz.max(1) }
    }

    /// The rate (units: kHz).
    pub fn khz(self) -> u32 {
        self.khz
    }

    /// The host's TSC now.
    #[allow(unsafe_code, reason = "an intrinsic without precondition")]
    pub fn now(self) -> u64 {
        // SAFETY: x86-64 has a TSC, and Linux lets user space read it.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    /// When the TSC will read `tsc`; the present time if it has passed that. The result counts from the present, so
    /// that drift between the two clocks does not add up.
    pub fn time_of(self, tsc: u64) -> Time {
        self.time_from(tsc, self.now(), monotonic())
    }

    /// Time since the TSC read `tsc`; zero if it will do so later.
    pub fn since(self, tsc: u64) -> Nanos {
        self.nanos(self.now().saturating_sub(tsc))
    }

    /// When the TSC will read `tsc`, if it reads `tsc_now` at `now`.
    pub fn time_from(self, tsc: u64, tsc_now: u64, now: Time) -> Time {
        now + self.nanos(tsc.saturating_sub(tsc_now))
    }

    fn nanos(self, ticks: u64) -> Nanos {
        let ns = u128::from(ticks) * 1_000_000 / u128::from(self.khz);
        Nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_ahead_converts_and_a_passed_one_is_now() {
        let clock = TscClock::new(2_000_000);
        assert_eq!(clock.time_from(5_000, 1_000, Time(100)), Time(2_100));
        assert_eq!(clock.time_from(500, 1_000, Time(100)), Time(100));
        assert_eq!(clock.time_from(u64::MAX - 1, 0, Time(100)), Time(100 + (u64::MAX - 1) / 2));
    }
}
