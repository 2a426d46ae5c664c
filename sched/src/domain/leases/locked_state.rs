//! What the lock guards of a domain with a thread for each vCPU.

use crate::domain::counts::Tally;
use crate::domain::id_allocator::IdAllocator;
use crate::domain::ledger_lock::HasLedger;
use crate::ids::{Slot, VcpuId};
use crate::ledger::Ledger;
use crate::sync::thread::JoinHandle;
use crate::time::Time;
use crate::vcpu::Vcpu;
/// What the lock guards.
pub(super) struct LockedState {
    pub(super) ledger: Ledger,
    pub(super) ids: IdAllocator,
    pub(super) vcpus: Vec<Option<Entry>>,
    pub(super) slots: Box<[SlotEntry]>,
    pub(super) watch: Watch,
    /// What vCPUs that have ended had counted.
    pub(super) ended: Tally,
}

impl HasLedger for LockedState {
    fn ledger(&self) -> &Ledger {
        &self.ledger
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
}

/// What the lock guards of it.
#[derive(Debug)]
pub(super) struct Watch {
    /// When the thread looks next.
    pub(super) at: Time,
    pub(super) thread: Option<JoinHandle<()>>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { at: Time::NEVER, thread: None }
    }
}

impl LockedState {
    pub(super) fn entry(&mut self, vcpu: VcpuId) -> &mut Entry {
        self.vcpus[vcpu.index()].as_mut().expect("the policy names only vCPUs it was told of")
    }

    /// A vCPU that has run gives its slot up.
    pub(super) fn leaves(&mut self, slot: Slot, vcpu: VcpuId) {
        let entry = self.entry(vcpu);
        (entry.on, entry.robbed) = (None, false);
        self.slots[slot.index()].on = None;
    }

    /// The ids of all vCPUs.
    pub(super) fn alive(&self) -> impl Iterator<Item = VcpuId> {
        let entries = self.vcpus.iter().enumerate();
        entries.filter(|(_, entry)| entry.is_some()).map(|(index, _)| VcpuId(index as u32))
    }

    pub(super) fn is_alive(&self, vcpu: VcpuId) -> bool {
        self.vcpus.get(vcpu.index()).is_some_and(Option::is_some)
    }

    /// Whether the alarm is earlier than the thread looks, which then is to be woken. At the end of a turn.
    pub(super) fn is_late(&mut self) -> bool {
        let (at, watched) = (self.ledger.alarm(), self.watch.at);
        self.watch.at = watched.min(at);
        at < watched
    }
}
