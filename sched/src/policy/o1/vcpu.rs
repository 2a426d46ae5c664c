//! A vCPU as the O(1) policy knows it: what its class, nice value and sleep come to.

use super::interactivity::{SleepAverage, slice};
use super::runqueue::Rank;
use crate::attributes::{Attributes, Class};
use crate::ids::{Nice, Slot};
use crate::time::{Nanos, Time};

/// State of a vCPU.
#[derive(Debug, Clone)]
pub(super) struct VcpuState {
    pub(super) nice: Nice,
    pub(super) class: Class,
    pub(super) sleep: SleepAverage,
    /// Dynamic level; follows `sleep` when it wakes and when a turn or slice is over, not while it runs.
    pub(super) level: u8,
    /// What is left of its slice, never nothing while it does not run.
    pub(super) slice: Nanos,
    /// Where it last ran, or queues.
    pub(super) home: Slot,
    /// Asleep since, once it has run.
    pub(super) asleep: Option<Time>,
    /// Queued since it woke.
    pub(super) woken: Option<Time>,
}

impl VcpuState {
    /// A new one: without bonus, with half a slice.
    pub(super) fn new(attributes: Attributes, home: Slot) -> Self {
        let Attributes { nice, class, .. } = attributes;
        let sleep = SleepAverage::default();
        let (level, slice) = (sleep.level(nice), Nanos(slice(nice).0 / 2));
        Self { nice, class, sleep, level, slice, home, asleep: None, woken: None }
    }

    /// The rank among which it runs.
    pub(super) fn rank(&self) -> Rank {
        match self.class {
            Class::Rt => Rank::Rt,
            Class::Normal | Class::Batch => Rank::Level(self.level),
            Class::Idle => Rank::Idle,
        }
    }

    pub(super) fn is_interactive(&self) -> bool {
        matches!(self.rank(), Rank::Level(level) if SleepAverage::is_interactive(level, self.nice))
    }

    /// How long its turn among its equals is; without end if it is not interactive.
    pub(super) fn turn(&self, slots: usize) -> Option<Nanos> {
        let turn = self.sleep.turn(slots);
        (self.is_interactive() && turn <= slice(self.nice)).then_some(turn)
    }

    /// It slept, or as good as.
    pub(super) fn earn(&mut self, slept: Nanos) {
        if self.class == Class::Normal {
            self.sleep.slept(slept, self.nice);
            self.level = self.sleep.level(self.nice);
        }
    }
}
