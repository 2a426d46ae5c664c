//! Class rt: ahead of everybody, as long as its budget lasts.
//!
//! Strict FIFO: an rt vCPU runs until it blocks, yields or the budget ends. The class may use [`SHARE`] of all slots' time in
//! a [`PERIOD`]; beyond that its vCPUs stand behind the whole staircase until the next period begins, so that an rt guest that
//! computes without end takes its part and not the host. The idea is the kernel's sched_rt_runtime_us.

use crate::{Nanos, Time};

/// Span after which the budget is full again.
pub const PERIOD: Nanos = Nanos::from_millis(100);
/// Part of a period's time on all slots that class rt may use (unit: percent).
pub const SHARE: u64 = 80;

/// What the class may still use.
#[derive(Debug)]
pub struct RtBudget {
    full: Nanos,
    left: Nanos,
    period: Time,
}

impl RtBudget {
    pub(super) fn new(slots: usize) -> Self {
        let full = Nanos(PERIOD.0 * slots as u64 * SHARE / 100);
        Self { full, left: full, period: Time(0) }
    }

    /// An rt vCPU ran so long.
    pub(super) fn use_up(&mut self, ran: Nanos) {
        self.left = self.left.saturating_sub(ran);
    }

    /// What is left of it, once a new period has begun if it is time.
    pub(super) fn left(&mut self, now: Time) -> Nanos {
        if now.since(self.period) >= PERIOD {
            (self.left, self.period) = (self.full, now);
        }
        self.left
    }
}
