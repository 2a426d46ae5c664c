//! The baseline to beat: one list of free slots, one run queue of vCPUs that want one.
//!
//! This is how the rump kernel handed out its CPUs before its scheduler got a fast path. Every entry took a CPU from a
//! global list under a global lock, and every exit gave it back. A thread that found none waited. An exit of a vCPU is
//! such a scheduling point. Rump had no preemption, since its threads always leave. A guest that computes does not
//! leave, so here a lease ends after the interval.

use super::contract::Policy;
use super::decision::{Decision, Placement, Why};
use super::queue::{Kind, Nodes, Queue};
use super::slotset::SlotSet;
use crate::attributes::Attributes;
use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};
use crate::topology::Topology;

/// The policy.
#[derive(Debug)]
pub struct Freelist {
    rr_interval: Nanos,
    free: SlotSet,
    nodes: Nodes,
    queue: Queue,
    current: Vec<Option<VcpuId>>,
    lease_end: Vec<Time>,
    /// Where each vCPU ran last, and what is near it; `None`: one free slot is as good as another.
    near: Option<(Vec<Option<Slot>>, Topology)>,
}

impl Freelist {
    /// A policy for this many slots, all free.
    pub fn new(rr_interval: Nanos, slots: usize) -> Self {
        let mut free = SlotSet::new(slots);
        (0..slots).for_each(|slot| free.insert(Slot(slot as u16)));
        Self {
            rr_interval,
            free,
            nodes: Nodes::default(),
            queue: Queue::new(),
            current: vec![None; slots],
            lease_end: vec![Time::NEVER; slots],
            near: None,
        }
    }

    /// This policy, except that a woken vCPU takes the free slot nearest to where it ran last.
    pub fn with_affinity(self, topology: Topology) -> Self {
        Self { near: Some((Vec::new(), topology)), ..self }
    }

    /// The free slot for a woken vCPU.
    fn free_for(&self, vcpu: VcpuId) -> Option<Slot> {
        match &self.near {
            Some((last, topology)) => self.free.nearest(last[vcpu.index()], topology),
            None => self.free.first(),
        }
    }

    fn install(&mut self, slot: Slot, vcpu: VcpuId, now: Time) -> Decision {
        self.current[slot.index()] = Some(vcpu);
        if let Some((last, _)) = &mut self.near {
            last[vcpu.index()] = Some(slot);
        }
        self.lease_end[slot.index()] = now + self.rr_interval;
        Decision::run(vcpu, self.lease_end[slot.index()])
    }

    fn take_head(&mut self, slot: Slot, now: Time) -> Decision {
        match self.queue.head(&self.nodes) {
            Some((vcpu, _)) => {
                self.queue.remove(&mut self.nodes, vcpu);
                self.free.remove(slot);
                self.install(slot, vcpu, now)
            }
            None => {
                self.current[slot.index()] = None;
                self.free.insert(slot);
                Decision::IDLE
            }
        }
    }
}

impl Policy for Freelist {
    fn add(&mut self, vcpu: VcpuId, _attributes: Attributes, _now: Time) {
        self.nodes.admit(vcpu);
        if let Some((last, _)) = &mut self.near {
            last.resize(last.len().max(vcpu.index() + 1), None);
            last[vcpu.index()] = None;
        }
    }

    fn remove(&mut self, vcpu: VcpuId) {
        if self.nodes.contains(vcpu) {
            self.queue.remove(&mut self.nodes, vcpu);
        }
        if let Some(slot) = self.current.iter().position(|&c| c == Some(vcpu)) {
            self.current[slot] = None;
            self.free.insert(Slot(slot as u16));
        }
    }

    fn wake(&mut self, vcpu: VcpuId, _now: Time) -> Placement {
        if let Some(slot) = self.free_for(vcpu) {
            self.free.remove(slot);
            self.current[slot.index()] = Some(vcpu);
            return Placement::Run(slot);
        }
        self.queue.push(&mut self.nodes, vcpu, 0, Kind::Computing);
        // Leases always have an end here, so every slot asks by itself.
        Placement::Queue(None)
    }

    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        let Some(current) = self.current[slot.index()] else { return self.take_head(slot, now) };
        match why {
            Why::Free => self.install(slot, current, now),
            Why::Check if now < self.lease_end[slot.index()] => Decision::run(current, self.lease_end[slot.index()]),
            Why::Check | Why::Exit | Why::Yield(_) => {
                self.queue.push(&mut self.nodes, current, 0, Kind::Computing);
                self.take_head(slot, now)
            }
            Why::Block | Why::Retire => self.take_head(slot, now),
        }
    }

    fn taken(&mut self, slot: Slot, time: Nanos) {
        self.lease_end[slot.index()] = self.lease_end[slot.index()] + time;
    }

    fn steals(&mut self, slot: Slot, thief: VcpuId, _now: Time) -> bool {
        let Some(robbed) = self.current[slot.index()].filter(|_| self.nodes.contains(thief)) else { return false };
        self.queue.remove(&mut self.nodes, thief);
        self.current[slot.index()] = Some(thief);
        self.queue.push_at(&mut self.nodes, robbed, 0, Kind::Computing);
        true
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn keeps_slot_over_exits(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_woken_vcpu_goes_where_it_was_or_near_it_if_affinity_is_on() {
        let topology = Topology::new(&[0, 1, 2, 3], [&[0, 1][..], &[2, 3]], [&[0, 1, 2, 3][..]]);
        let (interval, now) = (Nanos::from_millis(6), Time(0));
        let plain = Freelist::new(interval, 4);
        for (mut policy, places) in [(plain, [0, 0]), (Freelist::new(interval, 4).with_affinity(topology), [3, 2])] {
            let vcpus = [0, 1, 2, 3, 4].map(VcpuId);
            for vcpu in vcpus {
                policy.add(vcpu, Attributes::default(), now);
            }
            for (slot, vcpu) in vcpus.into_iter().take(4).enumerate() {
                assert_eq!(policy.wake(vcpu, now), Placement::Run(Slot(slot as u16)));
                let _ = policy.next(Slot(slot as u16), Why::Free, now);
            }
            (0..4).for_each(|slot| assert_eq!(policy.next(Slot(slot), Why::Block, now), Decision::IDLE));
            assert_eq!(policy.wake(VcpuId(3), now), Placement::Run(Slot(places[0])), "where it was");
            let _ = policy.next(Slot(places[0]), Why::Free, now);
            assert_eq!(policy.next(Slot(places[0]), Why::Block, now), Decision::IDLE);
            policy.free.remove(Slot(3));
            assert_eq!(policy.wake(VcpuId(3), now), Placement::Run(Slot(places[1])), "near it");
        }
    }
}
