//! Partners: two vCPUs that wake each other wait for one slot.
//!
//! Between partners only one can run at a time, mostly. On one slot each finds the queue that the other one left: their
//! messages need no kick. On two slots vCPUs pile up, now before one slot, now before the other, as in any closed
//! network of two queues, and a slot that runs empty takes vCPUs from the other one.
//!
//! Who woke a vCPU gets its vote, as in [`peers`](super::peers). Two that have each other's are partners. One of them
//! that is woken, and finds no idle slot, moves to the other one's home, unless many more vCPUs are at home there or
//! they stand further up, and it would wait for them.

use super::limits::DRIFT;
use super::state::Rsdl;
use crate::ids::{Slot, VcpuId};
use std::cmp::Ordering;

/// vCPUs of a pair.
const PAIR: usize = 2;

impl Rsdl {
    /// A vCPU is about to be woken by this one.
    pub(super) fn votes_for_waker(&mut self, vcpu: VcpuId, waker: VcpuId) {
        let vote = &mut self.vcpu(vcpu).waker;
        vote.vote(vote.candidate == Some(waker), Some(waker));
    }

    /// The home of a vCPU's partner, if the vCPU should move there.
    pub(super) fn partners_home(&mut self, vcpu: VcpuId) -> Option<Slot> {
        if self.queues.are_one() {
            return None;
        }
        let partner = self.vcpu(vcpu).waker.known()?;
        let home = self.vcpu(vcpu).home;
        let p = self.vcpus.get(partner.index())?.as_ref()?;
        let theirs = p.home;
        let mutual = p.waker.known() == Some(vcpu);
        let [here, there] = [home, theirs].map(|slot| &self.queues[slot]);
        let room = match there.served.cmp(&here.served) {
            Ordering::Less => false,
            Ordering::Equal => there.residents <= here.residents,
            Ordering::Greater => there.served > here.served + DRIFT || there.residents <= here.residents + 2 * PAIR,
        };
        (mutual && theirs != home && room).then_some(theirs)
    }
}
