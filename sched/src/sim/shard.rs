//! A shard of the machine: a policy behind its ledger, and the lock under which its slots ask.

use super::lock::Lock;
use crate::ids::Slot;
use crate::ledger::Ledger;
use crate::shards::Known;
use std::ops::Range;

/// What the machine knows of a shard.
#[derive(Debug)]
pub(super) struct ShardSim<P> {
    pub(super) ledger: Ledger<P>,
    pub(super) lock: Lock,
    pub(super) slots: Range<usize>,
    /// What it has taken over from others.
    pub(super) known: Known,
    /// Counts looks at others.
    pub(super) probe: usize,
    /// Where its own next vCPU stood when a slot last took one that stood further up.
    pub(super) took_at: u64,
}

impl<P> ShardSim<P> {
    pub(super) fn new(ledger: Ledger<P>, lock: Lock, slots: Range<Slot>) -> Self {
        let slots = slots.start.index()..slots.end.index();
        Self { ledger, lock, slots, known: Known::default(), probe: 0, took_at: 0 }
    }
}
