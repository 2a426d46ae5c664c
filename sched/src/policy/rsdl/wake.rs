//! Waking: where a vCPU goes that can run again.

use super::line::Join;
use super::matrix::Stair;
use super::{Placement, Rsdl};
use crate::{Class, Slot, Time, VcpuId};

impl Rsdl {
    pub(super) fn wakes(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        self.credit(vcpu, now);
        self.runnable_changes(vcpu, true, now);
        let lowest = self.keeps();
        self.catch_up(vcpu, lowest);
        let v = self.vcpu(vcpu);
        v.waits = false;
        let last = v.last;
        let known = last.filter(|_| self.config.affinity);
        if let Some(slot) = self.idle.nearest(known, &self.topology) {
            self.idle.remove(slot);
            self.place(slot, vcpu, now);
            return Placement::Run(slot);
        }
        let victim = self.victim(vcpu, last, now);
        self.enqueue(vcpu, Join::Tail(0));
        match victim {
            Some(slot) => {
                self.slots[slot.index()].contested = Some(vcpu);
                Placement::Preempt(slot)
            }
            None => Placement::Queue(self.limit_one(last)),
        }
    }

    /// The slot is this vCPU's, and asks next.
    fn place(&mut self, slot: Slot, vcpu: VcpuId, now: Time) {
        let s = &mut self.slots[slot.index()];
        (s.current, s.charged, s.since) = (Some(vcpu), now, now);
        self.vcpu(vcpu).on = Some(slot);
    }

    /// See [`Policy::steals`](crate::policy::Policy::steals). Who is given a slot for a pair keeps it, and a class that does
    /// not go ahead by waking does not steal. The robbed vCPU has not run, so it pays nothing.
    pub(super) fn takes_from_equal(&mut self, slot: Slot, thief: VcpuId, now: Time) -> bool {
        let s = &self.slots[slot.index()];
        let Some(robbed) = s.current else { return false };
        let kept = s.paired || s.reserved.is_some() || self.vcpu(robbed).class == Class::Rt;
        if kept || self.vcpu(thief).class != Class::Normal || self.standing(thief) > self.standing(robbed) {
            return false;
        }
        if !self.dequeue(thief) {
            return false;
        }
        self.enqueue(robbed, Join::OldPlace);
        self.place(slot, thief, now);
        true
    }

    /// A slot whose vCPU stands worse than this one: the slot the woken one knows, or one more. `None` if both are better
    /// or have to make room already.
    fn victim(&mut self, woken: VcpuId, last: Option<Slot>, now: Time) -> Option<Slot> {
        if matches!(self.vcpu(woken).class, Class::Batch | Class::Idle) {
            return None;
        }
        let known = last.filter(|_| self.config.affinity);
        // The next slot in turn, but not the known one again.
        for _ in 0..2 {
            self.probe = (self.probe + 1) % self.slots.len();
            if known != Some(Slot(self.probe as u16)) {
                break;
            }
        }
        let other = Slot(self.probe as u16);
        let standing = self.standing(woken);
        for slot in known.into_iter().chain([other]) {
            self.charge(slot, now);
            let s = &self.slots[slot.index()];
            if let (Some(current), None) = (s.current, s.contested)
                && self.standing(current) > standing
            {
                return Some(slot);
            }
        }
        None
    }

    /// A vCPU's stair, as far as its class lets it count.
    pub(super) fn standing(&mut self, vcpu: VcpuId) -> Stair {
        let rt_may_run = self.rt_may_run();
        match self.vcpus.get(vcpu.index()).and_then(Option::as_ref) {
            Some(v) if v.class == Class::Rt && rt_may_run => 0,
            Some(v) if v.class == Class::Normal || v.class == Class::Batch => v.stair,
            _ => Stair::MAX,
        }
    }

    /// A slot whose vCPU has no limit, which is to get one now that somebody waits.
    pub(super) fn limit_one(&mut self, last: Option<Slot>) -> Option<Slot> {
        let known = last.filter(|&slot| self.unlimited.contains(slot));
        let slot = known.or_else(|| self.unlimited.first())?;
        self.unlimited.remove(slot);
        Some(slot)
    }
}
