//! Giving all vCPUs back, and going on with those of another domain.

use super::Executors;
use super::shared::{Act, Entry, LockedState, Newcomer, Shared};
use crate::domain::berth::Berth;
use crate::domain::contract::Domain;
use crate::domain::handover::{Adopted, Before, Evacuated, Evacuee, Handover};
use crate::ids::{Slot, VcpuId};
use crate::kick;
use crate::sync::Ordering;
use crate::time::{Time, monotonic};
use std::io;

impl Handover for Executors {
    fn population(&self) -> usize {
        // Not those of all shards: a vCPU may be between two of them.
        self.shared.division.admission.lock().ids.in_use()
    }

    /// Executors need none.
    fn berths(&self, _: usize) -> io::Result<Vec<Berth>> {
        Ok(Vec::new())
    }

    fn halt(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        if threads.is_empty() {
            return;
        }
        self.shared.ending.store(true, Ordering::SeqCst);
        for slot in &self.shared.slots {
            slot.word.want();
            slot.parker.wake();
            if let Some(thread) = slot.thread.get() {
                kick::send(*thread);
            }
        }
        for thread in threads {
            // A panic there was reported by the panic hook; there is nothing left to do about it.
            let _ = thread.join();
        }
    }

    fn evacuate(&self) -> Evacuated {
        let mut vcpus = Vec::new();
        for shard in &self.shared.shards {
            let mut state = shard.state.lock();
            let now = monotonic();
            let ids = (0..state.vcpus.len()).map(|index| VcpuId(index as u32));
            vcpus.extend(ids.filter_map(|id| self.shared.evict(&mut state, id, now)));
        }
        Evacuated { vcpus, ids: std::mem::take(&mut self.shared.division.admission.lock().ids) }
    }

    fn missed(&self, vcpu: VcpuId) -> bool {
        self.shared.events[vcpu.index()].missed()
    }

    fn adopt(&self, mut evacuated: Evacuated, _: Vec<Berth>) -> Adopted {
        let mut adopted = Adopted::default();
        let evacuees = adopted.but_for_ended(evacuated.vcpus, &mut evacuated.ids);
        self.shared.division.admission.lock().ids = evacuated.ids;
        let mut awake = Vec::new();
        for evacuee in evacuees {
            let goes_on = evacuee.event || evacuee.rests.is_none();
            awake.extend(goes_on.then_some(evacuee.id));
            self.shared.settle(evacuee);
        }
        // All are known to the policy when it decides about the first.
        awake.into_iter().for_each(|id| self.wake(id));
        (0..self.shared.slots.len()).for_each(|slot| self.shared.perform(Act::Look(Slot(slot as u16)), None));
        adopted
    }
}

impl Shared {
    /// Takes a vCPU out as it is. The executors have ended.
    fn evict(&self, state: &mut LockedState, id: VcpuId, now: Time) -> Option<Evacuee> {
        let entry = state.vcpus[id.index()].take()?;
        let leaving = self.events[id.index()].leave();
        let deadline = entry.deadline.map_or(Time::NEVER, |slot| state.deadlines(slot).of(id));
        let mut account = state.ledger.account_of(id, now)?;
        entry.counted.enter(&mut account, |outcomes| &mut outcomes.alone);
        Some(Evacuee {
            id,
            vcpu: entry.vcpu.expect("executors put their vCPUs down when they end"),
            attributes: state.ledger.attributes_of(id)?,
            rests: leaving.rests.then_some(deadline),
            event: leaving.event,
            retiring: entry.retiring,
            account: entry.before.plus(account),
            at: now,
        })
    }

    /// Takes in a vCPU of another domain, blocked. Its deadline is watched by the first slot of its shard, which looks
    /// once all are there.
    fn settle(&self, Evacuee { id, vcpu, attributes, rests, account, at, .. }: Evacuee) {
        let shard = self.division.admission.lock().places(&self.division.board, attributes.group);
        let mut state = self.shards[shard.index()].state.lock();
        let mut entry = Entry::new(vcpu, attributes, Before::of(account));
        let watcher = self.division.plan.slots(shard).start;
        let until = rests.filter(|until| *until != Time::NEVER);
        entry.deadline = until.map(|_| watcher);
        self.admit(&mut state, Newcomer { id, shard, attributes, at, entry });
        until.into_iter().for_each(|until| state.deadlines(watcher).insert(until, id));
    }
}
