//! What a policy itself counts of yields.

/// What the statistics patch counted, since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct YieldCounts {
    /// Yields that the policy was told of.
    pub yields: u64,
    /// Those while no other vCPU could run there.
    pub sole: u64,
    /// Refills of all counters, for whatever reason.
    pub recalculations: u64,
    /// Passes that were made only because a yielder was better than the vCPU that replaced it.
    pub extra_passes: u64,
}

impl YieldCounts {
    /// What came since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            yields: self.yields.saturating_sub(earlier.yields),
            sole: self.sole.saturating_sub(earlier.sole),
            recalculations: self.recalculations.saturating_sub(earlier.recalculations),
            extra_passes: self.extra_passes.saturating_sub(earlier.extra_passes),
        }
    }

    /// The sum of both.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            yields: self.yields + other.yields,
            sole: self.sole + other.sole,
            recalculations: self.recalculations + other.recalculations,
            extra_passes: self.extra_passes + other.extra_passes,
        }
    }
}
