//! Class rt: ahead of all other classes, as long as its budget lasts.
//!
//! Strict FIFO: an rt vCPU runs until it blocks, yields or the budget ends. The class may use [`SHARE`] of each slot's
//! time in each 100 ms; beyond that its vCPUs stand behind the whole staircase there until the next period begins, so
//! that an rt guest that computes without end takes its part and not the host. The idea is the kernel's
//! sched_rt_runtime_us. A slot's use is known whenever it asks; of a budget that slots share, what runs elsewhere is
//! not known yet, and would be used twice.

use crate::time::{Nanos, Time};

/// Span after which the budget is full again.
pub(crate) const PERIOD: Nanos = Nanos::from_millis(100);
/// Part of a period's time that class rt may use of each slot (unit: percent).
pub const SHARE: u64 = 80;

/// What a slot's whole budget is.
pub(crate) const FULL: Nanos = Nanos(PERIOD.0 * SHARE / 100);

/// What the class may still use of a slot.
#[derive(Debug, Clone)]
pub(crate) struct RtBudget {
    left: Nanos,
    period: Time,
}

impl RtBudget {
    pub(super) fn new() -> Self {
        Self { left: FULL, period: Time(0) }
    }

    /// An rt vCPU ran so long.
    pub(super) fn use_up(&mut self, ran: Nanos) {
        self.left = self.left.saturating_sub(ran);
    }

    /// What is left of it, once a new period has begun if it is time.
    pub(super) fn left(&mut self, now: Time) -> Nanos {
        if now.since(self.period) >= PERIOD {
            (self.left, self.period) = (FULL, now);
        }
        self.left
    }
}
