//! What the lock of a shard guards, in a domain with a thread for each vCPU.

use crate::domain::handover::Before;
use crate::domain::ledger_lock::HasLedger;
use crate::ids::{Shard, Slot, VcpuId};
use crate::ledger::Ledger;
use crate::shards::Known;
use crate::sync::thread::JoinHandle;
use crate::time::Time;
use crate::vcpu::Vcpu;
use std::ops::Range;

/// What the lock guards.
pub(super) struct LockedState {
    pub(super) shard: Shard,
    pub(super) ledger: Ledger,
    /// By id; only those that are in this shard.
    pub(super) vcpus: Vec<Option<Box<Entry>>>,
    /// The number of its first slot.
    first: usize,
    slots: Box<[SlotEntry]>,
    /// When the thread looks next that tells the policy the time.
    pub(super) looks_at: Time,
    /// What it has taken over from others.
    pub(super) known: Known,
}

impl HasLedger for LockedState {
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}

/// A vCPU, as the mechanism knows it.
#[derive(Default)]
pub(super) struct Entry {
    /// The slot that is its own: held, handed to it, or left for a nap.
    pub(super) on: Option<Slot>,
    /// The slot to whose pCPU its thread is bound.
    pub(super) bound: Option<Slot>,
    /// A thief has tried to steal the slot that was handed to it. No other may before it has run.
    pub(super) robbed: bool,
    pub(super) thread: Option<JoinHandle<()>>,
    /// What its thread left when it ended before the vCPU.
    pub(super) left: Option<Left>,
    pub(super) before: Before,
}

/// A vCPU without a thread.
pub(super) struct Left {
    pub(super) vcpu: Box<dyn Vcpu>,
    /// Its deadline, if it waits for an event.
    pub(super) until: Time,
    /// It waits for one that only it sees.
    pub(super) dozes: bool,
}

/// A slot, as the mechanism knows it.
#[derive(Debug, Clone, Default)]
pub(super) struct SlotEntry {
    pub(super) on: Option<VcpuId>,
    /// Other shards know that it does not idle.
    pub(super) busy: bool,
}

impl LockedState {
    pub(super) fn new(shard: Shard, ledger: Ledger, slots: Range<Slot>) -> Self {
        let (first, count) = (slots.start.index(), slots.end.index() - slots.start.index());
        let slots = vec![SlotEntry::default(); count].into();
        Self { shard, ledger, vcpus: Vec::new(), first, slots, looks_at: Time::NEVER, known: Known::default() }
    }

    /// A slot of this shard; `None`: it is another's.
    pub(super) fn slot(&mut self, slot: Slot) -> Option<&mut SlotEntry> {
        self.slots.get_mut(slot.index().checked_sub(self.first)?)
    }

    /// The vCPU whose own a slot of this shard is.
    pub(super) fn on(&self, slot: Slot) -> Option<VcpuId> {
        self.slots.get(slot.index().checked_sub(self.first)?)?.on
    }

    /// The vCPUs whose own the slots of this shard are, in their order.
    pub(super) fn all_on(&self) -> impl Iterator<Item = Option<VcpuId>> {
        self.slots.iter().map(|slot| slot.on)
    }

    /// Makes room for a vCPU of this id; may allocate.
    pub(super) fn make_room(&mut self, vcpu: VcpuId) {
        if self.vcpus.len() <= vcpu.index() {
            self.vcpus.resize_with(vcpu.index() + 1, || None);
        }
    }

    /// A slot of this shard is a vCPU's own, or no longer any's.
    pub(super) fn puts_on(&mut self, slot: Slot, vcpu: Option<VcpuId>) {
        self.slot(slot).expect("a shard decides about its own slots").on = vcpu;
    }

    pub(super) fn entry(&mut self, vcpu: VcpuId) -> &mut Entry {
        self.vcpus[vcpu.index()].as_mut().expect("the policy names only vCPUs it was told of")
    }

    /// A vCPU that has run gives its slot up.
    pub(super) fn leaves(&mut self, slot: Slot, vcpu: VcpuId) {
        let entry = self.entry(vcpu);
        (entry.on, entry.robbed) = (None, false);
        self.puts_on(slot, None);
    }

    pub(super) fn is_alive(&self, vcpu: VcpuId) -> bool {
        self.vcpus.get(vcpu.index()).is_some_and(Option::is_some)
    }

    /// Whether the alarm is earlier than the thread looks, which then is to be woken. At the end of a turn.
    pub(super) fn is_late(&mut self) -> bool {
        let (at, watched) = (self.ledger.alarm(), self.looks_at);
        self.looks_at = watched.min(at);
        at < watched
    }
}
