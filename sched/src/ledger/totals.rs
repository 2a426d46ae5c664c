//! Counts of a domain: exits, switches, migrations and yields.

use crate::policy::YieldCounts;

/// Counts of a domain since it started. For the baseline without a policy, only what it can see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Exits to the monitor.
    pub exits: u64,
    /// A pCPU went from one vCPU to another.
    pub switches: u64,
    /// A vCPU went on, on another pCPU than it last ran on.
    pub migrations: u64,
    /// Yields by kind and outcome.
    pub yields: Yields,
    /// What the policy itself counts of them, if it does.
    pub told: Option<YieldCounts>,
}

/// Yields by what they said, and by what came of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Yields {
    /// Said nothing.
    pub unknown: u64,
    /// Named a lock's holder.
    pub lock: u64,
    /// Named a message's sender.
    pub message: u64,
    /// No vCPU waited, so it changed nothing.
    pub alone: u64,
    /// Another vCPU got the pCPU.
    pub switched: u64,
    /// The vCPU went on although others waited.
    pub stayed: u64,
}

impl Totals {
    /// What came since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            exits: self.exits.saturating_sub(earlier.exits),
            switches: self.switches.saturating_sub(earlier.switches),
            migrations: self.migrations.saturating_sub(earlier.migrations),
            yields: self.yields.since(&earlier.yields),
            told: self.told.map(|told| told.since(&earlier.told.unwrap_or_default())),
        }
    }

    /// The sum of both.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            exits: self.exits + other.exits,
            switches: self.switches + other.switches,
            migrations: self.migrations + other.migrations,
            yields: self.yields.plus(&other.yields),
            told: self.told.map_or(other.told, |told| Some(told.plus(&other.told.unwrap_or_default()))),
        }
    }
}

impl Yields {
    fn plus(&self, other: &Self) -> Self {
        Self {
            unknown: self.unknown + other.unknown,
            lock: self.lock + other.lock,
            message: self.message + other.message,
            alone: self.alone + other.alone,
            switched: self.switched + other.switched,
            stayed: self.stayed + other.stayed,
        }
    }

    /// What came since an earlier reading.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            unknown: self.unknown.saturating_sub(earlier.unknown),
            lock: self.lock.saturating_sub(earlier.lock),
            message: self.message.saturating_sub(earlier.message),
            alone: self.alone.saturating_sub(earlier.alone),
            switched: self.switched.saturating_sub(earlier.switched),
            stayed: self.stayed.saturating_sub(earlier.stayed),
        }
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.unknown + self.lock + self.message
    }
}
