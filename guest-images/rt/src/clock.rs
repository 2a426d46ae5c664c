//! Time: the TSC, which the monitor keeps equal to the host's, and its rate from the boot page.

use crate::Boot;

/// A point in time or a span, in TSC ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Ticks from `earlier` to `self`; 0 if that is negative.
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl core::ops::Add for Ticks {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Now.
#[inline]
pub fn now() -> Ticks {
    // `rdtsc` has no precondition.
    #[allow(unsafe_code, reason = "an intrinsic without precondition")]
    // SAFETY: readable at CPL 3, CR4.TSD is clear.
    Ticks(unsafe { core::arch::x86_64::_rdtsc() })
}

/// Converts between ticks and nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    khz: u64,
}

impl Clock {
    /// The clock the monitor calibrated.
    pub fn new(boot: Boot) -> Self {
        Self::with_khz(boot.tsc_khz())
    }

    pub(crate) fn with_khz(khz: u32) -> Self {
        Self { khz: u64::from(khz).max(1) }
    }

    /// Ticks in `ns` nanoseconds, rounded down; saturates.
    pub fn ticks(self, ns: u64) -> Ticks {
        Ticks(u64::try_from(u128::from(ns) * u128::from(self.khz) / 1_000_000).unwrap_or(u64::MAX))
    }

    /// Nanoseconds in `ticks`, rounded down; saturates.
    pub fn ns(self, ticks: Ticks) -> u64 {
        u64::try_from(u128::from(ticks.0) * 1_000_000 / u128::from(self.khz)).unwrap_or(u64::MAX)
    }

    /// Now, in nanoseconds of the TSC's own epoch.
    pub fn now_ns(self) -> u64 {
        self.ns(now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_and_ticks_convert_both_ways() {
        let clock = Clock::with_khz(2_600_000);
        assert_eq!(clock.ticks(1_000), Ticks(2_600));
        assert_eq!(clock.ns(Ticks(2_600_000_000)), 1_000_000_000);
        assert_eq!(
            u128::from(clock.ns(Ticks(u64::MAX))),
            u128::from(u64::MAX) * 10 / 26,
            "far points in time do not wrap"
        );
    }

    #[test]
    fn a_clock_of_zero_khz_does_not_divide_by_zero() {
        assert_eq!(Clock::with_khz(0).ns(Ticks(1)), 1_000_000);
    }
}
