//! What the threads of executors share, and what the lock guards of it.

use super::alarm::{Watch, placed};
use crate::attributes::{Attributes, Class};
use crate::deadlines::Deadlines;
use crate::domain::counts::{Counts, Tally};
use crate::domain::division::Division;
use crate::domain::events::Events;
use crate::domain::handover::Before;
use crate::domain::ledger_lock::{HasLedger, LedgerLock};
use crate::domain::parker::Parker;
use crate::domain::policy_traits::PolicyTraits;
use crate::domain::spin_probe::SpinProbe;
use crate::ids::{Shard, Slot, VcpuId};
use crate::kick;
use crate::ledger::{Account, Ledger};
use crate::lock::Caller;
use crate::policy::Placement;
use crate::shards::Known;
use crate::slot::SlotWord;
use crate::sync::{AtomicBool, Ordering};
use crate::time::Time;
use crate::vcpu::Vcpu;
use std::ops::Range;
use std::sync::OnceLock;

/// Deadlines, and vCPUs held back, that are handled in one go, so that the lock is held for a bounded time; the rest
/// follows at once.
pub(super) const DUE_AT_ONCE: usize = 8;

pub(super) struct Shared {
    pub(super) division: Division,
    pub(super) shards: Box<[ShardShared]>,
    pub(super) slots: Box<[SlotShared]>,
    pub(super) events: Box<[Events]>,
    pub(super) policy: PolicyTraits,
    pub(super) detects_spinning: bool,
    pub(super) ending: AtomicBool,
}

/// A shard.
pub(super) struct ShardShared {
    pub(super) state: LedgerLock<LockedState>,
    /// A vCPU is queued. Written under the lock; read without, where being late only means one more exit.
    pub(super) waiters: AtomicBool,
}

/// What others may see of a slot.
#[derive(Debug, Default)]
pub(super) struct SlotShared {
    pub(super) word: SlotWord,
    pub(super) parker: Parker,
    pub(super) thread: OnceLock<kick::ThreadId>,
    pub(super) counts: Counts,
}

/// What a shard's lock guards.
pub(super) struct LockedState {
    pub(super) ledger: Ledger,
    /// By id; only those that are in this shard.
    pub(super) vcpus: Vec<Option<Box<Entry>>>,
    /// The number of its first slot.
    first: usize,
    deadlines: Box<[Deadlines]>,
    pub(super) watch: Watch,
    /// What it has taken over from others.
    known: Known,
}

impl LockedState {
    pub(super) fn new(ledger: Ledger, slots: Range<Slot>) -> Self {
        let (first, count) = (slots.start.index(), slots.end.index() - slots.start.index());
        let deadlines = (0..count).map(|_| Deadlines::default()).collect();
        Self { ledger, vcpus: Vec::new(), first, deadlines, watch: Watch::new(slots.start), known: Known::default() }
    }

    /// Those that a slot of this shard watches.
    pub(super) fn deadlines(&mut self, slot: Slot) -> &mut Deadlines {
        &mut self.deadlines[slot.index() - self.first]
    }

    /// Makes room for a vCPU of this id; may allocate.
    pub(super) fn make_room(&mut self, vcpu: VcpuId) {
        if self.vcpus.len() <= vcpu.index() {
            self.vcpus.resize_with(vcpu.index() + 1, || None);
        }
        self.deadlines.iter_mut().for_each(|deadlines| deadlines.admit(vcpu));
    }
}

impl HasLedger for LockedState {
    fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}

pub(super) struct Entry {
    /// What its executor is when it asks.
    pub(super) caller: Caller,
    /// Here while the vCPU is not on a slot.
    pub(super) vcpu: Option<Box<dyn Vcpu>>,
    pub(super) on: Option<Slot>,
    /// The slot that watches its deadline.
    pub(super) deadline: Option<Slot>,
    pub(super) retiring: bool,
    pub(super) probe: SpinProbe,
    /// What was counted of it up to when it was last put on a slot, and that slot's counts then.
    pub(super) counted: Tally,
    pub(super) counts_before: Tally,
    pub(super) before: Before,
}

impl Entry {
    /// Of a vCPU that has not run here.
    pub(super) fn new(vcpu: Box<dyn Vcpu>, attributes: Attributes, before: Before) -> Box<Self> {
        let caller = if attributes.class == Class::Rt { Caller::Rt } else { Caller::Normal };
        Box::new(Self {
            caller,
            vcpu: Some(vcpu),
            on: None,
            deadline: None,
            retiring: false,
            probe: SpinProbe::default(),
            counted: Tally::default(),
            counts_before: Tally::default(),
            before,
        })
    }
}

/// A vCPU that comes to a shard, blocked.
pub(super) struct Newcomer {
    pub(super) id: VcpuId,
    pub(super) shard: Shard,
    pub(super) attributes: Attributes,
    pub(super) at: Time,
    pub(super) entry: Box<Entry>,
}

/// A vCPU that the domain has let go of.
pub(super) struct Gone {
    pub(super) vcpu: Box<dyn Vcpu>,
    pub(super) last: Account,
}

impl Gone {
    pub(super) fn give_back(self) {
        self.vcpu.retired(&self.last);
    }
}

/// Something to do once the lock is free.
pub(super) enum Act {
    /// The slot has to ask.
    Ask(Slot),
    /// The idle executor of the slot has to look.
    Rouse(Slot),
    /// The executor of the slot has to look, or the slot has to ask.
    Look(Slot),
}

impl Act {
    pub(super) fn slot(&self) -> Slot {
        let (Self::Ask(slot) | Self::Rouse(slot) | Self::Look(slot)) = *self;
        slot
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl Shared {
    /// Takes a vCPU in. With the lock of its shard.
    pub(super) fn admit(&self, state: &mut LockedState, Newcomer { id, shard, attributes, at, entry }: Newcomer) {
        state.make_room(id);
        state.ledger.add(id, attributes, at);
        state.vcpus[id.index()] = Some(entry);
        self.division.whereabouts.comes(id, shard, false);
        self.events[id.index()].admit();
    }

    /// Completes a wake whose event found the vCPU blocked, unless another thread has.
    pub(super) fn unblock(&self, state: &mut LockedState, vcpu: VcpuId, by: Option<VcpuId>, now: Time) -> Option<Act> {
        if !self.events[vcpu.index()].unblock() {
            return None;
        }
        let entry = state.vcpus[vcpu.index()].as_mut()?;
        if let Some(slot) = entry.deadline.take() {
            state.deadlines(slot).remove(vcpu);
        }
        let placement = state.ledger.wake(vcpu, by, now);
        self.division.whereabouts.waits(vcpu, !matches!(placement, Placement::Run(_)));
        placed(placement)
    }

    /// `rechecks` is the thread that looks at its own slot's word next, if it is an executor at all: it is in the
    /// middle of a vCPU's exit.
    pub(super) fn perform(&self, act: Act, rechecks: Option<kick::ThreadId>) {
        match act {
            Act::Rouse(slot) => {
                self.slots[slot.index()].parker.wake();
            }
            Act::Ask(slot) => self.demand(slot, rechecks),
            Act::Look(slot) => {
                self.demand(slot, rechecks);
                self.slots[slot.index()].parker.wake();
            }
        }
    }

    /// Makes a busy slot ask.
    pub(super) fn demand(&self, slot: Slot, rechecks: Option<kick::ThreadId>) {
        let slot = &self.slots[slot.index()];
        if slot.word.want()
            && let Some(thread) = slot.thread.get()
            && rechecks != Some(*thread)
        {
            kick::send(*thread);
        }
    }

    /// Lets others know what has become of a shard.
    pub(super) fn publish(&self, shard: Shard, state: &mut LockedState) {
        let waiters = &self.shards[shard.index()].waiters;
        let waiting = state.ledger.waiting() > 0;
        if waiters.load(Ordering::Relaxed) != waiting {
            waiters.store(waiting, Ordering::Relaxed);
        }
        self.division.publish(shard, &mut state.ledger, &mut state.known);
    }

    /// Removes a vCPU the policy has let go of.
    pub(super) fn forget(&self, shard: Shard, state: &mut LockedState, vcpu: VcpuId) -> Option<Gone> {
        self.events[vcpu.index()].retire();
        let entry = state.vcpus[vcpu.index()].take()?;
        if let Some(slot) = entry.deadline {
            state.deadlines(slot).remove(vcpu);
        }
        let group = state.ledger.attributes_of(vcpu).and_then(|attributes| attributes.group);
        let mut last = state.ledger.close(vcpu);
        entry.counted.enter(&mut last, |outcomes| &mut outcomes.alone);
        self.division.forgets(vcpu, group, shard);
        Some(Gone { vcpu: entry.vcpu?, last: entry.before.plus(last) })
    }
}
