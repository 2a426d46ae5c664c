//! A vCPU of the machine, and what became of it.

use super::guest::Guest;
use crate::ids::{Shard, VcpuId};
use crate::time::{Nanos, Time};

/// What became of a vCPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Record {
    /// CPU time, as the domain accounts it.
    pub run: Nanos,
    /// Of that, computing.
    pub worked: Nanos,
    /// From runnable without a slot until on one, at most.
    pub longest_wait: Nanos,
    /// Times it was put on a slot.
    pub turns: u64,
    /// Exits to the monitor.
    pub exits: u64,
}

/// A vCPU that waited longer than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateVcpu {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// When its wait was noticed, at its end or the run's.
    pub at: Time,
    /// How long it waited.
    pub waited: Nanos,
    /// How long it may.
    pub bound: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Blocked,
    Queued,
    /// On an idle slot that has not asked yet.
    Placed(usize),
    On(usize),
}

#[derive(Debug)]
pub(super) struct VcpuSim {
    pub(super) guest: Guest,
    /// Left of the step it is in.
    pub(super) left: Nanos,
    /// It spins for what it waits for, and need not do so to the end.
    pub(super) spins: bool,
    /// When it sees what others have done for it.
    pub(super) sees: Time,
    pub(super) place: Place,
    pub(super) shard: Shard,
    /// Where it ran last.
    pub(super) last: Option<usize>,
    /// Since when it waits, or runs.
    pub(super) since: Time,
    /// Until when it would idle, as it asks to.
    pub(super) idles: Time,
    /// An event that came while it was not blocked.
    pub(super) event: bool,
    /// The slot that watches its deadline, and when that is.
    pub(super) deadline: Option<(usize, Time)>,
    /// Longer than this it must not wait.
    pub(super) bound: Nanos,
    /// When it first ran.
    pub(super) first_ran: Option<Time>,
    pub(super) record: Record,
}
