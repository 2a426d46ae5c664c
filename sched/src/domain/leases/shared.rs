//! What the threads of a domain share, and a turn with its lock.

use super::acts::{Act, Acts};
use super::alarm::Alarm;
use super::gate::Gate;
use super::locked_state::{Entry, LockedState};
use super::lookout::Lookout;
use super::record::Records;
use super::rt_boost::RtBoost;
use super::watcher::Watcher;
use crate::attributes::Attributes;
use crate::domain::counts::Tally;
use crate::domain::division::{Admissions, Division};
use crate::domain::handover::Before;
use crate::domain::ledger_lock::{LedgerGuard, LedgerLock};
use crate::domain::policy_traits::PolicyTraits;
use crate::ids::{Shard, VcpuId};
use crate::kick;
use crate::ledger::Account;
use crate::lock::Caller;
use crate::policy::Why;
use crate::slot::{SlotWord, Word};
use crate::sync::{AtomicBool, thread_local};
use crate::time::{Nanos, Time, monotonic};
use rustix::thread::{CpuSet, Pid};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// The domain whose vCPU the thread carries, by its address.
    pub(super) static HOME: Cell<usize> = const { Cell::new(0) };
}

pub(super) struct Shared<W> {
    pub(super) division: Division,
    pub(super) shards: Box<[ShardShared]>,
    pub(super) slots: Box<[SlotShared<W>]>,
    pub(super) records: Records,
    pub(super) rt_boost: RtBoost,
    pub(super) alarm: Alarm,
    pub(super) watcher: Watcher,
    pub(super) steals: bool,
    pub(super) policy: PolicyTraits,
    pub(super) detects_spinning: bool,
    pub(super) departures: bool,
    pub(super) ending: AtomicBool,
}

/// A shard.
pub(super) struct ShardShared {
    pub(super) state: LedgerLock<LockedState>,
    pub(super) gate: Gate,
}

/// What all threads may see of a slot.
#[derive(Debug)]
pub(super) struct SlotShared<W> {
    pub(super) word: SlotWord<W>,
    /// The host's number of the pCPU.
    pub(super) cpu: usize,
    pub(super) lookout: Arc<Lookout>,
}

impl<W: Word> SlotShared<W> {
    /// Of this CPU of the host.
    pub(super) fn on(cpu: usize) -> Self {
        Self { word: SlotWord::default(), cpu, lookout: Arc::default() }
    }
}

/// The thread that takes a turn with the lock.
#[derive(Clone, Copy)]
pub(super) struct Asker {
    pub(super) caller: Caller,
    /// The calling thread, if it looks at its own slot's word next: it is in the middle of its vCPU's exit, if it
    /// carries one at all.
    pub(super) rechecks: Option<kick::ThreadId>,
}

/// Why a vCPU stopped, and if it blocks, until when.
#[derive(Clone, Copy)]
pub(super) struct Stopped {
    pub(super) why: Why,
    pub(super) until: Time,
    /// The event is one that only the vCPU sees.
    pub(super) dozes: bool,
    /// Its thread was at work for it: if it comes late, that is its own doing.
    pub(super) at_work: bool,
}

impl<W: Word> Shared<W> {
    /// Whether the calling thread may touch slot words.
    pub(super) fn may_touch_slots(&self) -> bool {
        W::ANY_CPU || HOME.with(Cell::get) == std::ptr::from_ref(self).addr()
    }

    pub(super) fn gate(&self, shard: Shard) -> &Gate {
        &self.shards[shard.index()].gate
    }

    /// Runs a closure under the lock of a shard, and its deferred actions once the lock is free. Before the closure it
    /// settles what napped, and resumes vCPUs held back if it is time. After it, it publishes whether a vCPU waits, and
    /// sees to it that no slot idles while a vCPU waits in another shard.
    pub(super) fn turn<R>(
        &self,
        shard: Shard,
        me: Asker,
        something: impl FnOnce(&mut LockedState, Time, &mut Acts) -> R,
    ) -> R {
        let result = self.turn_locked(self.shards[shard.index()].state.lock_as(me.caller), me, something);
        self.relieve(shard, me);
        result
    }

    /// As [`turn`](Self::turn), with the shard that a vCPU is in.
    pub(super) fn turn_of<R>(
        &self,
        vcpu: VcpuId,
        me: Asker,
        something: impl FnOnce(&mut LockedState, Time, &mut Acts) -> R,
    ) -> R {
        let lock = |shard: Shard| self.shards[shard.index()].state.lock_as(me.caller);
        let (shard, state) = self.division.whereabouts.lock_of(vcpu, lock);
        let result = self.turn_locked(state, me, something);
        self.relieve(shard, me);
        result
    }

    /// As [`turn`](Self::turn), with the lock, and no look at other shards.
    pub(super) fn turn_locked<R>(
        &self,
        mut state: LedgerGuard<'_, LockedState>,
        me: Asker,
        something: impl FnOnce(&mut LockedState, Time, &mut Acts) -> R,
    ) -> R {
        debug_assert!(self.may_touch_slots());
        let mut acts = Acts::new();
        let shard = state.shard;
        let (result, mut more, mut late) = {
            let now = monotonic();
            let left = self.settle(&mut state, now, &mut acts) || self.tick(&mut state, now, &mut acts);
            let result = something(&mut state, now, &mut acts);
            let more = self.publish(&mut state, now, &mut acts);
            let late = state.is_late();
            drop(state);
            (result, left || more, late)
        };
        acts.drain(..).for_each(|act| self.perform(act, me.rechecks));
        while more {
            {
                let mut state = self.shards[shard.index()].state.lock_as(me.caller);
                let now = monotonic();
                let left = self.settle(&mut state, now, &mut acts) || self.tick(&mut state, now, &mut acts);
                more = left || self.publish(&mut state, now, &mut acts);
                late |= state.is_late();
            }
            acts.drain(..).for_each(|act| self.perform(act, me.rechecks));
        }
        if late {
            self.alarm.wake();
        }
        result
    }

    fn perform(&self, act: Act, rechecks: Option<kick::ThreadId>) {
        match act {
            Act::Grant { vcpu, slot, bind } => {
                let record = self.records.of(vcpu);
                // A model's threads are all one thread of the host.
                if bind && !cfg!(all(test, shuttle)) {
                    let mut only = CpuSet::new();
                    only.set(self.slots[slot.index()].cpu);
                    // The CPU was checked when the domain was configured; should it have gone offline, the vCPU runs
                    // elsewhere.
                    let _ = rustix::thread::sched_setaffinity(Pid::from_raw(record.thread().0), &only);
                }
                record.grant(slot);
            }
            // The thread's own slot, at an exit after which it looks at the stamp.
            Act::Kick(thread) if rechecks == Some(thread) => {}
            Act::Kick(thread) => kick::send(thread),
        }
    }

    /// Takes a vCPU in, blocked and without a thread.
    pub(super) fn admit(&self, id: VcpuId, shard: Shard, attributes: Attributes, at: Time, before: Before) {
        let mut state = self.shards[shard.index()].state.lock();
        state.make_room(id);
        state.ledger.add(id, attributes, at);
        state.vcpus[id.index()] = Some(Box::new(Entry { before, ..Entry::default() }));
        self.division.whereabouts.comes(id, shard, false);
        self.records.admit(id);
    }

    /// The account of a vCPU, in other domains as well; `None` if it has ended.
    pub(super) fn account_of(&self, state: &LockedState, vcpu: VcpuId, now: Time) -> Option<Account> {
        let entry = state.vcpus.get(vcpu.index())?.as_ref()?;
        Some(entry.before.plus(self.complete(state.ledger.account_of(vcpu, now)?, vcpu, now)))
    }

    /// Adds to the ledger's account of a vCPU what only its thread knows. What it was on a slot for and did not run was
    /// a nap, or the way to the slot, which counts as waiting.
    fn complete(&self, mut account: Account, vcpu: VcpuId, now: Time) -> Account {
        let record = self.records.of(vcpu);
        let own = record.times(now);
        let mut left = account.run + account.taken;
        let mut part = |of: Nanos| {
            let part = of.min(left);
            left = left - part;
            part
        };
        account.idle += part(own.napped);
        (account.run, account.taken) = (part(own.run), part(own.taken));
        account.wait += left;
        record.counts.read().enter(&mut account, |outcomes| &mut outcomes.alone);
        account
    }

    /// What all vCPUs have counted so far, those that have ended too.
    pub(super) fn counted(&self, admission: &Admissions) -> Tally {
        // Ids of vCPUs that ended in another domain may have no record here.
        let records = (0..admission.ids.given_out()).filter_map(|id| self.records.get(VcpuId(id)));
        let counted = records.map(|record| record.counts.read());
        counted.fold(admission.recycled, Tally::plus)
    }

    /// Removes a vCPU the policy has let go of. Gives its last account, and what is to be dropped outside the lock.
    pub(super) fn forget(&self, state: &mut LockedState, vcpu: VcpuId, now: Time) -> (Account, Option<Box<Entry>>) {
        self.records.of(vcpu).events.retire();
        let group = state.ledger.attributes_of(vcpu).and_then(|attributes| attributes.group);
        let last = self.complete(state.ledger.close(vcpu), vcpu, now);
        self.division.forgets(vcpu, group, state.shard);
        let entry = state.vcpus[vcpu.index()].take();
        (entry.as_ref().map_or_else(|| last.clone(), |entry| entry.before.plus(last.clone())), entry)
    }
}
