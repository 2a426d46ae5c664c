//! Giving all vCPUs back, for another mechanism to go on with.

use super::Leases;
use super::acts::Acts;
use super::locked_state::LockedState;
use super::shared::Shared;
use crate::domain::evacuate::{Evacuate, Evacuated, Evacuee};
use crate::domain::moves::Moves;
use crate::ids::VcpuId;
use crate::slot::Word;
use crate::sync::Ordering;
use crate::time::{Time, monotonic};

impl<W: Word> Evacuate for Leases<W> {
    fn population(&self) -> usize {
        // Not those of all shards: a vCPU may be between two of them.
        self.shared.division.admission.lock().ids.in_use()
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
        let account = self.complete(state.ledger.account_of(id, now)?, id, now);
        let attributes = state.ledger.attributes_of(id)?;
        let record = self.records.of(id);
        let leaving = record.events.leave();
        let left = state.vcpus[id.index()].take()?.left.expect("threads leave their vCPUs here when they end");
        Some(Evacuee {
            id,
            vcpu: left.vcpu,
            attributes,
            // A vCPU that dozes waits inside its run, where the host's threads leave it.
            rests: (leaving.rests && !left.dozes).then_some(left.until),
            event: leaving.event,
            retiring: record.retiring.load(Ordering::Relaxed),
            account,
            at: now,
        })
    }
}
