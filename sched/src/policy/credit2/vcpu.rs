//! A vCPU as the Credit2 policy knows it.

use super::credit::{Credit, RESET};
use super::heaps::Rank;
use super::load::Load;
use crate::attributes::{Attributes, Class};
use crate::ids::{Nice, Slot};
use crate::time::Time;

/// State of a vCPU.
#[derive(Debug, Clone)]
pub(super) struct VcpuState {
    pub(super) nice: Nice,
    pub(super) class: Class,
    /// Its run queue, asleep or not.
    pub(super) queue: usize,
    /// Where it last ran, or is to begin.
    pub(super) home: Slot,
    /// Its credit, without what resets have added to its run queue: so a reset need not look at it.
    pub(super) account: Credit,
    /// What a division left of the time it ran.
    pub(super) rest: u32,
    pub(super) load: Load,
}

impl VcpuState {
    /// A new one, with the credit of a reset, in a run queue to which so much has been added.
    pub(super) fn new(attributes: Attributes, queue: usize, home: Slot, added: Credit, now: Time) -> Self {
        let Attributes { nice, class, .. } = attributes;
        Self { nice, class, queue, home, account: RESET - added, rest: 0, load: Load::of_new(now) }
    }

    /// Among which vCPUs it runs.
    pub(super) fn rank(&self) -> Rank {
        match self.class {
            Class::Rt => Rank::Rt,
            Class::Normal | Class::Batch => Rank::Credit,
            Class::Idle => Rank::Idle,
        }
    }
}
