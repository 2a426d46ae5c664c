//! What can be set.

use super::matrix::{Row, Variant};
use super::polite_switches::PoliteSwitches;
use crate::attributes::{Attributes, Class};
use crate::time::Nanos;

/// What a yield means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum YieldRule {
    /// Nothing: the vCPU goes on.
    None,
    /// To the back of the next rotation; what was left of this one is lost. SD's sched_yield.
    Expire,
    /// The rules of [`polite`](super::polite), as far as switched on.
    Polite(PoliteSwitches),
}

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RsdlConfig {
    /// Base of all quotas (units: ns; 100 us to 5 s).
    pub rr_interval: Nanos,
    /// How long all runnable vCPUs together may take to use a quota each: quotas shrink so that they do not take longer
    /// (units: ns).
    pub target_latency: Nanos,
    /// What quotas do not shrink below (units: ns).
    pub least_quota: Nanos,
    /// Whether each slot has a run queue of its own, or all share one.
    pub per_pcpu_queues: bool,
    /// Other objects of this policy serve other slots of the domain, and vCPUs go from one to another.
    pub shares: bool,
    /// Which generation's levels.
    pub variant: Variant,
    /// What a yield means.
    pub yield_rule: YieldRule,
    /// Whether a woken vCPU prefers the slot it last ran on, and of idle slots the nearest to it.
    pub affinity: bool,
    /// Whether a vCPU runs for a moment before one that was woken takes its slot.
    pub grain: bool,
}

impl RsdlConfig {
    /// What a vCPU may use, and where. Class batch has its levels in one piece: it waits longer, and then runs longer.
    pub(super) fn row_of(&self, attributes: Attributes) -> Row {
        match attributes.class {
            Class::Batch => Row::consecutive(attributes.nice, self.rr_interval),
            _ => Row::new(attributes.nice, self.rr_interval, self.variant),
        }
    }
}

impl Default for RsdlConfig {
    fn default() -> Self {
        Self {
            rr_interval: Nanos::from_millis(6),
            target_latency: Nanos::from_millis(24),
            least_quota: Nanos::from_millis(3),
            per_pcpu_queues: false,
            shares: false,
            variant: Variant::default(),
            yield_rule: YieldRule::Polite(PoliteSwitches::default()),
            affinity: true,
            grain: false,
        }
    }
}
