//! vCPUs that go to another shard of the domain, and come from one.
//!
//! All shards have one scale of stairs, and a vCPU keeps its stair. So one that fell behind on a slow shard runs ahead
//! of those that a fast one has served.

use super::limits::{DEEPEST, DRIFT};
use super::matrix::Stair;
use super::run_queue::RunQueue;
use super::scale::Scale;
use super::state::Rsdl;
use crate::attributes::Class;
use crate::ids::{Slot, VcpuId};
use crate::policy::contract::Policy;
use crate::policy::decision::Placement;
use crate::policy::travel::{Front, Progress, Spare, Traveller};
use crate::time::Time;

impl Rsdl {
    /// The next vCPU of the queue that has got least far, of those that may leave. Class rt stays: it has a budget
    /// where it is.
    pub(super) fn to_spare(&self) -> Option<Spare> {
        let head = |queue: &RunQueue| {
            let idle = || queue.idlers.head(&self.nodes).map(|(vcpu, _)| (vcpu, Stair::MAX));
            queue.staircase.head(&self.nodes).or_else(idle)
        };
        let (vcpu, stair) = self.queues.all().filter_map(head).min_by_key(|&(_, stair)| stair)?;
        let came = self.vcpus[vcpu.index()].as_ref().is_some_and(|v| v.came);
        Some(Spare { vcpu, stair, came })
    }

    pub(super) fn stands_in_queue(&self, vcpu: VcpuId) -> Option<Stair> {
        let v = self.vcpus.get(vcpu.index())?.as_ref()?;
        (v.class != Class::Rt && self.nodes.contains(vcpu)).then_some(v.stair)
    }

    pub(super) fn got_to(&self) -> Progress {
        let served = self.queues.all().map(|queue| queue.served);
        let quota = Scale::new(&self.config, self.crowd.most(), self.slots.len()).real(self.config.rr_interval);
        Progress { stair: served.min().unwrap_or(0), contended: self.contended(), quota }
    }

    /// vCPUs that stand further up than those of other shards may come down with the served stair.
    pub(super) fn takes_over(&mut self, front: Front, now: Time) {
        self.quota = Some(front.quota);
        self.scale = Scale::of(&self.config, front.quota);
        self.others_wait = front.contended;
        self.time.turn(self.is_charged(), now);
        (0..self.queues.count()).for_each(|queue| self.serve(Slot(queue as u16), front.stair.saturating_sub(DRIFT)));
    }

    pub(super) fn sends_off(&mut self, vcpu: VcpuId, now: Time) -> Option<Traveller> {
        let queued = self.nodes.contains(vcpu);
        let moves_to = self.moves_others_to(vcpu);
        let v = self.vcpu(vcpu);
        if v.class == Class::Rt || v.on.is_some() {
            return None;
        }
        let traveller = Traveller { queued, stair: v.stair, owes: v.stair - moves_to, used: v.used, waits: v.waits };
        self.time.now = now;
        self.remove(vcpu);
        Some(traveller)
    }

    /// A vCPU was added that comes from another shard.
    pub(super) fn takes_in(&mut self, vcpu: VcpuId, traveller: Traveller, slot: Slot, now: Time) -> Option<Placement> {
        let v = self.vcpu(vcpu);
        (v.stair, v.used, v.waits) = (traveller.stair, traveller.used, traveller.waits);
        v.slept = false;
        v.came = true;
        let before = std::mem::replace(&mut v.home, slot);
        self.queue(before).residents -= 1;
        self.queue(slot).residents += 1;
        self.serve(slot, (traveller.stair - traveller.owes).saturating_sub(DEEPEST));
        if !traveller.queued {
            return None;
        }
        self.runnable_changes(vcpu, true, now);
        Some(self.arrives_at_home(vcpu, now))
    }
}
