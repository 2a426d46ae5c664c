//! A shard of the machine: a policy behind its ledger, and the lock under which its slots ask.

use super::lock::Lock;
use crate::ids::Slot;
use crate::ledger::Ledger;
use crate::shards::{Known, Looks};
use std::ops::Range;

/// What the machine knows of a shard.
#[derive(Debug)]
pub(super) struct ShardSim<P> {
    pub(super) ledger: Ledger<P>,
    pub(super) lock: Lock,
    pub(super) slots: Range<usize>,
    /// What it has taken over from others.
    pub(super) known: Known,
    pub(super) looks: Looks,
}

impl<P> ShardSim<P> {
    pub(super) fn new(ledger: Ledger<P>, lock: Lock, slots: Range<Slot>) -> Self {
        let slots = slots.start.index()..slots.end.index();
        Self { ledger, lock, slots, known: Known::default(), looks: Looks::default() }
    }
}
