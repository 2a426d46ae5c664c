//! A slot of the machine.

use crate::policy::Why;
use crate::time::{Nanos, Time};
use std::collections::BTreeSet;

/// A slot on its way to the policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asks {
    pub(super) why: Why,
    /// When it gets to the lock, or has it.
    pub(super) at: Time,
    pub(super) has_lock: bool,
}

/// What the machine knows of a slot.
#[derive(Debug)]
pub(super) struct SlotSim {
    /// The vCPU on it.
    pub(super) current: Option<usize>,
    pub(super) last: Option<usize>,
    /// A vCPU placed on it while it is idle, until it asks.
    pub(super) placed: Option<usize>,
    /// The guest's code has run up to here; later than now while a switch is under way.
    pub(super) from: Time,
    /// When the timer fires.
    pub(super) timer: Time,
    /// When a kick, or the wake-up of the idle slot, arrives.
    pub(super) told: Time,
    pub(super) wanted: bool,
    /// The host has the pCPU until then.
    pub(super) stalled: Time,
    /// What the host took from the vCPU on it since the slot last asked.
    pub(super) taken: Nanos,
    /// What the policy was told that the host took.
    pub(super) told_taken: Nanos,
    /// Its vCPU's thread does device work.
    pub(super) at_work: bool,
    /// When its lease ends.
    pub(super) lease_end: Time,
    /// It is about to ask.
    pub(super) asks: Option<Asks>,
    /// Events that its vCPU sends by the exit that it makes.
    pub(super) sends: Vec<usize>,
    /// Of vCPUs that went to sleep here.
    pub(super) deadlines: BTreeSet<(Time, usize)>,
    /// What questions to other shards take before it goes on.
    pub(super) delayed: Nanos,
    pub(super) busy: Nanos,
    pub(super) busy_since: Time,
}

impl SlotSim {
    /// An idle slot.
    pub(super) fn new() -> Self {
        Self {
            current: None,
            last: None,
            placed: None,
            from: Time(0),
            timer: Time::NEVER,
            told: Time::NEVER,
            wanted: false,
            stalled: Time(0),
            taken: Nanos::ZERO,
            told_taken: Nanos::ZERO,
            at_work: false,
            lease_end: Time::NEVER,
            asks: None,
            sends: Vec::new(),
            deadlines: BTreeSet::new(),
            delayed: Nanos::ZERO,
            busy: Nanos::ZERO,
            busy_since: Time(0),
        }
    }

    /// The earliest deadline it watches.
    pub(super) fn deadline(&self) -> Time {
        self.deadlines.first().map_or(Time::NEVER, |deadline| deadline.0)
    }
}
