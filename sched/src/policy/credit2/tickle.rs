//! Which slot is told of a vCPU that has been queued: Xen calls it tickling.

use super::credit::Credit;
use super::heaps::Rank;
use super::{Credit2, RATE_LIMIT, RESISTANCE};
use crate::attributes::Class;
use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};

/// So much of the rate limit may be left of a vCPU that is preempted: by the time its slot asks, it has passed.
/// Xen: CSCHED2_RATELIMIT_TICKLE_TOLERANCE.
const TOLERANCE: Nanos = Nanos::from_micros(50);

impl Credit2 {
    /// The idle slot for a woken vCPU: where it last ran, the next one of its run queue, the next one of all.
    pub(super) fn idle_for(&self, vcpu: VcpuId) -> Option<Slot> {
        let v = self.vcpu(vcpu);
        let slots = &self.queues[v.queue].slots;
        let (before, from_home) = slots.split_at(slots.iter().position(|&slot| slot == v.home).unwrap_or(0));
        let idle = from_home.iter().chain(before).copied().find(|&slot| self.idle.contains(slot));
        idle.or_else(|| self.idle.after(v.home))
    }

    /// A busy slot on which a queued vCPU is to go ahead of the one there.
    pub(super) fn victim(&mut self, vcpu: VcpuId, now: Time) -> Option<Slot> {
        let rank = self.vcpu(vcpu).rank();
        let mut best: Option<((Rank, Credit), Slot)> = None;
        let queue = self.vcpu(vcpu).queue;
        for at in 0..self.queues[queue].slots.len() {
            let slot = self.queues[queue].slots[at];
            let lead = self.lead(vcpu, slot, now);
            if lead.is_some_and(|lead| best.is_none_or(|(other, _)| lead > other)) {
                best = lead.map(|lead| (lead, slot));
            }
        }
        match best {
            Some(((Rank::Idle, _), slot)) => Some(slot),
            _ if rank == Rank::Idle => None,
            // Another run queue has the slot of a worse class, and takes the vCPU over when it asks.
            _ => self.idling.first().or(best.map(|(_, slot)| slot)).or_else(|| {
                let rt = rank == Rank::Rt;
                rt.then(|| self.below_rt.first()).flatten()
            }),
        }
    }

    /// How far a vCPU is ahead of the one that runs on a slot, if it may preempt that: by the other's rank first, then
    /// at home before elsewhere, then by credit.
    fn lead(&mut self, vcpu: VcpuId, slot: Slot, now: Time) -> Option<(Rank, Credit)> {
        let s = &self.slots[slot.index()];
        let current = s.current.filter(|_| !s.placed)?;
        let (rank, other) = (self.vcpu(vcpu).rank(), self.vcpu(current).rank());
        let at_home = self.vcpu(vcpu).home == slot;
        if other > rank {
            return Some((other, if at_home { 1 } else { 0 }));
        }
        let by_credit = rank == Rank::Credit && other == Rank::Credit && self.vcpu(vcpu).class != Class::Batch;
        if !by_credit || now.since(s.since) <= RATE_LIMIT - TOLERANCE {
            return None;
        }
        self.charge(slot, now);
        let more = self.credit(vcpu) - self.credit(current) - if at_home { 0 } else { RESISTANCE };
        (more > 0).then_some((other, if at_home { Credit::MAX } else { more }))
    }
}
