//! Giving all vCPUs back, and going on with those of another domain.

use super::Leases;
use super::acts::Acts;
use super::locked_state::LockedState;
use super::shared::Shared;
use super::thread::{self, Missed, Rest, Start};
use crate::domain::berth::Berth;
use crate::domain::contract::Domain;
use crate::domain::handover::{Adopted, Before, Evacuated, Evacuee, Handover};
use crate::domain::moves::Moves;
use crate::ids::VcpuId;
use crate::ledger::Account;
use crate::slot::Word;
use crate::sync::{Ordering, mpsc};
use crate::time::{Time, monotonic};
use std::io;
use std::sync::Arc;

impl<W: Word> Handover for Leases<W> {
    fn population(&self) -> usize {
        // Not those of all shards: a vCPU may be between two of them.
        self.shared.division.admission.lock().ids.in_use()
    }

    fn berths(&self, vcpus: usize) -> io::Result<Vec<Berth>> {
        self.shared.start_alarm()?;
        Berth::some(vcpus)
    }

    fn halt(&self) {
        self.stop();
    }

    fn evacuate(&self) -> Evacuated {
        // A late sender of an event settles what naps, and must find nothing. A vCPU that is to run now does so
        // elsewhere. Slot words may be touched from here: no thread of the domain is left.
        for shard in self.shared.division.plan.shards() {
            let (mut state, mut acts) = (self.shared.lock(shard), Acts::new());
            while self.shared.settle(&mut state, monotonic(), &mut acts) {
                acts.clear();
            }
        }
        let mut vcpus = Vec::new();
        self.shared.with_each_vcpu(|state, id| vcpus.extend(self.shared.evict(state, id, monotonic())));
        let mut admission = self.shared.division.admission.lock();
        admission.recycled = self.shared.counted(&admission);
        Evacuated { vcpus, ids: std::mem::take(&mut admission.ids) }
    }

    fn missed(&self, vcpu: VcpuId) -> bool {
        self.shared.records.of(vcpu).events.missed()
    }

    fn adopt(&self, mut evacuated: Evacuated, berths: Vec<Berth>) -> Adopted {
        let mut adopted = Adopted::default();
        let evacuees = adopted.but_for_ended(evacuated.vcpus, &mut evacuated.ids);
        self.shared.division.admission.lock().ids = evacuated.ids;
        let (mut awake, mut starts) = (Vec::new(), Vec::new());
        assert!(evacuees.len() <= berths.len(), "there is a thread for every vCPU");
        for (evacuee, berth) in evacuees.into_iter().zip(berths) {
            let goes_on = evacuee.event || evacuee.rests.is_none();
            awake.extend(goes_on.then_some(evacuee.id));
            starts.push(self.settle(evacuee, berth));
        }
        for (id, account, started) in starts {
            // The host refuses a thread what a vCPU that halts inside needs: it ends.
            if let Ok(Err((_, vcpu))) = started.recv() {
                let (_, mut state) = self.shared.lock_of(id);
                let now = monotonic();
                state.ledger.remove(id, now);
                self.shared.forget(&mut state, id, now);
                adopted.ended.push((vcpu, account));
                adopted.ids.retain(|adopted| *adopted != id);
            }
        }
        awake.into_iter().for_each(|id| self.wake(id));
        adopted
    }
}

impl<W: Word> Leases<W> {
    /// Takes in a vCPU of another domain, blocked, on a thread made for it.
    fn settle(&self, evacuee: Evacuee, berth: Berth) -> (VcpuId, Account, mpsc::Receiver<thread::Started>) {
        let Evacuee { id, vcpu, attributes, rests, account, at, .. } = evacuee;
        let Shared { division, records, .. } = &*self.shared;
        let shard = {
            let mut admission = division.admission.lock();
            admission.recycled = admission.recycled.plus(records.recycle(id));
            admission.places(&division.board, attributes.group)
        };
        let before = Missed { waited: account.wait, taken: account.taken };
        self.shared.admit(id, shard, attributes, at, Before::of(account.clone()));
        let shared = Arc::clone(&self.shared);
        let (ready, started) = mpsc::sync_channel(1);
        let rest = Rest { until: rests.unwrap_or(Time::NEVER), ..Rest::PLAIN };
        let start = Start { id, attributes, rest, before };
        let thread = berth.lead(Box::new(move |timer| thread::carry(shared, start, vcpu, timer, &ready)));
        self.keep_thread(id, thread);
        (id, account, started)
    }
}

impl<W: Word> Shared<W> {
    /// Locks the shard of each vCPU in turn; one that is on the way to another arrives first.
    pub(super) fn with_each_vcpu(&self, mut what: impl FnMut(&mut LockedState, VcpuId)) {
        let ids = self.division.admission.lock().ids.given_out();
        for id in (0..ids).map(VcpuId) {
            let (_, mut state) = self.lock_of(id);
            if state.is_alive(id) {
                what(&mut state, id);
            }
        }
    }

    /// Takes a vCPU out as it is. Its thread has ended.
    fn evict(&self, state: &mut LockedState, id: VcpuId, now: Time) -> Option<Evacuee> {
        let account = self.account_of(state, id, now)?;
        let attributes = state.ledger.attributes_of(id)?;
        let record = self.records.of(id);
        let leaving = record.events.leave();
        let left = state.vcpus[id.index()].take()?.left.expect("threads leave their vCPUs here when they end");
        Some(Evacuee {
            id,
            vcpu: left.vcpu,
            attributes,
            // A vCPU that dozes waits inside its run, where the next domain finds it.
            rests: (leaving.rests && !left.dozes).then_some(left.until),
            event: leaving.event,
            retiring: record.retiring.load(Ordering::Relaxed),
            account,
            at: now,
        })
    }
}
