//! Giving all vCPUs back, for another mechanism to go on with.

use super::Leases;
use super::acts::Acts;
use super::locked_state::LockedState;
use super::shared::Shared;
use crate::domain::evacuate::{Evacuate, Evacuated, Evacuee};
use crate::ids::VcpuId;
use crate::slot::Word;
use crate::sync::Ordering;
use crate::time::{Time, monotonic};

impl<W: Word> Evacuate for Leases<W> {
    fn population(&self) -> usize {
        self.shared.state.lock().vcpus.iter().flatten().count()
    }

    fn halt(&self) {
        self.stop();
    }

    fn evacuate(&self) -> Evacuated {
        let mut state = self.shared.state.lock();
        let now = monotonic();
        // A late sender of an event settles what naps, and must find nothing. A vCPU that is to run now does so
        // elsewhere. Slot words may be touched from here: no thread of the domain is left.
        let mut acts = Acts::new();
        while self.shared.settle(&mut state, now, &mut acts) {
            acts.clear();
        }
        let ids = (0..state.vcpus.len()).map(|index| VcpuId(index as u32));
        let vcpus = ids.filter_map(|id| self.shared.evict(&mut state, id, now)).collect();
        Evacuated { vcpus, ids: std::mem::take(&mut state.ids) }
    }

    fn missed(&self, vcpu: VcpuId) -> bool {
        self.shared.records.of(vcpu).events.missed()
    }
}

impl<W: Word> Shared<W> {
    /// Takes a vCPU out as it is. Its thread has ended.
    fn evict(&self, state: &mut LockedState, id: VcpuId, now: Time) -> Option<Evacuee> {
        let account = self.complete(state.ledger.account_of(id, now)?, id, now);
        let attributes = state.ledger.attributes_of(id)?;
        let record = self.records.of(id);
        let leaving = record.events.leave();
        state.ended = state.ended.plus(record.counts.read());
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
