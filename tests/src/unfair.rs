//! A policy that starves one vCPU, for tests of the watchdog.

use std::collections::VecDeque;
use stile_sched::attributes::Attributes;
use stile_sched::policy::{Decision, Placement, Policy, Why};
use stile_sched::{Lease, Nanos, Slot, Time, VcpuId};

const TURN: Nanos = Nanos::from_millis(2);

/// First come, first served, except for one vCPU.
#[derive(Debug)]
pub struct Unfair {
    victim: VcpuId,
    /// Whether the victim could run.
    waits: bool,
    queue: VecDeque<VcpuId>,
    /// The vCPU that is on each slot, or was placed there.
    on: Vec<Option<VcpuId>>,
}

impl Unfair {
    /// A policy for this many slots. The victim never gets any of them.
    pub fn new(victim: VcpuId, slots: usize) -> Self {
        Self { victim, waits: false, queue: VecDeque::new(), on: vec![None; slots] }
    }
}

impl Policy for Unfair {
    fn add(&mut self, _: VcpuId, _: Attributes, _: Time) {}

    fn remove(&mut self, vcpu: VcpuId) {
        self.waits &= vcpu != self.victim;
        self.queue.retain(|queued| *queued != vcpu);
        self.on.iter_mut().filter(|on| **on == Some(vcpu)).for_each(|on| *on = None);
    }

    fn wake(&mut self, vcpu: VcpuId, _: Time) -> Placement {
        if vcpu == self.victim {
            self.waits = true;
        } else if let Some(idle) = self.on.iter().position(Option::is_none) {
            self.on[idle] = Some(vcpu);
            return Placement::Run(Slot(idle as u16));
        } else {
            self.queue.push_back(vcpu);
        }
        // Every turn is limited, so no slot has to be kicked.
        Placement::Queue(None)
    }

    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        let on = &mut self.on[slot.index()];
        match (why, on.take()) {
            (Why::Block | Why::Retire, _) | (_, None) => *on = self.queue.pop_front(),
            (Why::Free, placed) => *on = placed,
            (_, Some(vcpu)) => {
                self.queue.push_back(vcpu);
                *on = self.queue.pop_front();
            }
        }
        Decision { run: on.map(|vcpu| Lease { vcpu, until: now + TURN }), ..Decision::IDLE }
    }

    fn waiting(&self) -> usize {
        self.queue.len() + usize::from(self.waits)
    }
}
