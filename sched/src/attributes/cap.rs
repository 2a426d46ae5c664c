//! Caps: the CPU time that a group of vCPUs, a VM's, may use together.

use crate::time::Nanos;
use std::sync::atomic::{AtomicU32, Ordering};

/// CPU time that may be used in a period: a budget of half the period is a cap of 0.5 CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cap {
    budget: Nanos,
    period: Nanos,
}

impl Cap {
    /// The least budget, and the shortest turn made of it: below that a turn costs more in exits than it gives.
    pub const SHORTEST_TURN: Nanos = Nanos::from_micros(100);

    /// `None` for a budget below the [shortest turn](Self::SHORTEST_TURN), or no period.
    pub const fn new(budget: Nanos, period: Nanos) -> Option<Self> {
        if budget.0 >= Self::SHORTEST_TURN.0 && period.0 > 0 { Some(Self { budget, period }) } else { None }
    }

    /// CPU time in a period.
    pub const fn budget(self) -> Nanos {
        self.budget
    }

    /// Span over which the budget is spread.
    pub const fn period(self) -> Nanos {
        self.period
    }
}

/// Names a group of vCPUs within a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupId(pub u32);

impl GroupId {
    /// One that no other call in this process has given.
    pub fn unique() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// The group a vCPU belongs to. It exists as long as it has members; the first one brings the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Group {
    /// Which one.
    pub id: GroupId,
    /// What its members may use together.
    pub cap: Cap,
}
