//! What a slot takes from the queues of others.
//!
//! A vCPU waits where it ran last. So that no slot idles while a vCPU waits elsewhere, and no vCPU waits long for a
//! slot that is behind the others, a slot takes vCPUs from another queue:
//!
//! 1. *It would idle*: the next of the nearest slot where one waits.
//! 2. *Its next vCPU stands more than [`DRIFT`](super::limits::DRIFT) below one that waits elsewhere*: that one, at the
//!    end of a lease and at a yield. When its vCPU blocks the drift must be more than [`FAR`]: vCPUs that block often
//!    would be moved about for differences that even out by themselves. From a queue that is no longer than its own it
//!    takes one for each stair: two queues that are equally long drift apart, and would change places.
//!    The drift does not matter where only a vCPU of class idle could go on here, or one of class rt whose budget is
//!    used up.
//! 3. *The other slot should have asked long ago*, as its vCPU's lease has ended: the host has taken its pCPU. Then the
//!    next vCPU of either queue runs here, in the order of a single queue.
//! 4. *Its vCPU yields and none waits here*: the next of another queue, if a yield could let that one through here.
//! 5. *Its next vCPU is of class idle*, which has no stairs, *and one of that class has waited longer elsewhere*: that
//!    one.
//! 6. *A vCPU of class rt waits for another slot, none of that class waits here, and the budget here is not used up*:
//!    that vCPU, before all others. Otherwise two of class rt that compute would share the budget of one slot.
//!
//! Rules 2 to 5 look at one other queue each time a slot asks, a different one each time. Rules 1 and 6 look at all.
//!
//! A vCPU that is taken has its new home there. It keeps its stair: all stairs are one scale.

use super::limits::{DEEPEST, FAR, LATE, REACH};
use super::matrix::Stair;
use super::run_queue::Join;
use super::state::Rsdl;
use crate::attributes::Class;
use crate::ids::{Slot, VcpuId};

/// The next vCPU of a slot's queue, and its stair.
type Head = (Slot, (VcpuId, Stair));

impl Rsdl {
    /// Before a slot without a vCPU picks: rules 1 to 3, 5 and 6.
    pub(super) fn pulls(&mut self, slot: Slot) {
        if self.queued == 0 || self.queues.are_one() {
            return;
        }
        if self.queues[slot].len() > 0 {
            self.pulls_from_one_behind(slot, FAR, None);
        } else if !self.pulls_rt(slot) {
            let nearest = self.waiting.nearest(Some(slot), &self.topology);
            nearest.into_iter().for_each(|other| self.pull_next(slot, other));
        }
    }

    /// Rule 6. If it takes none, rules 2 and 3, with this drift, and rule 5. `runs` is the vCPU on the slot, if it
    /// could go on.
    pub(super) fn pulls_from_one_behind(&mut self, slot: Slot, drift: Stair, runs: Option<VcpuId>) {
        if self.queued == 0 || self.queues.are_one() || self.pulls_rt(slot) {
            return;
        }
        let rt_may_run = self.rt_may_run(slot);
        let q = &self.queues[slot];
        let runs = runs.and_then(|vcpu| Some((vcpu, self.vcpus[vcpu.index()].as_ref()?)));
        if rt_may_run && (q.rt.len() > 0 || runs.is_some_and(|(_, v)| v.class == Class::Rt)) {
            return;
        }
        let runs = runs.filter(|(_, v)| matches!(v.class, Class::Normal | Class::Batch));
        // It looks once this vCPU is in its queue, when it picks.
        if q.len() == 0 && runs.is_some() {
            return;
        }
        let own = q.staircase.head(&self.nodes).or(runs.map(|(vcpu, v)| (vcpu, v.stair)));
        let Some(other) = self.another_queue(slot) else { return };
        match self.queues[other].staircase.head(&self.nodes) {
            Some(theirs) if own.is_none_or(|own| self.falls_behind((slot, own), (other, theirs), drift)) => {
                self.pull(slot, theirs.0);
            }
            None if own.is_none() => self.pulls_idler(slot, other),
            _ => {}
        }
    }

    /// Rule 6. Whether there is such a vCPU.
    fn pulls_rt(&mut self, slot: Slot) -> bool {
        if self.rt_waiting.is_empty() || self.queues[slot].rt.len() > 0 || !self.rt_may_run(slot) {
            return false;
        }
        let other = self.rt_waiting.nearest(Some(slot), &self.topology);
        let Some((vcpu, _)) = other.and_then(|other| self.queues[other].rt.head(&self.nodes)) else { return false };
        self.pull(slot, vcpu);
        true
    }

    /// Rule 5.
    fn pulls_idler(&mut self, slot: Slot, other: Slot) {
        let next = |slot| {
            let (vcpu, _) = self.queues[slot].idlers.head(&self.nodes)?;
            Some((self.nodes.place(vcpu), vcpu))
        };
        if let (Some((place, _)), Some((theirs, vcpu))) = (next(slot), next(other))
            && theirs < place
        {
            self.pull(slot, vcpu);
        }
    }

    /// Whether the next vCPU of another slot should run here before the next one here.
    fn falls_behind(&mut self, (slot, own): Head, (other, theirs): Head, drift: Stair) -> bool {
        let (stair, own_stair) = (theirs.1, own.1);
        if stair + drift < own_stair {
            let longer = self.queues[other].len() > self.queues[slot].len() + 1;
            let q = self.queue(slot);
            return longer || std::mem::replace(&mut q.pulled_at, own_stair) < own_stair;
        }
        let s = &self.slots[other.index()];
        let overdue = !s.endless && s.lease_end + LATE < self.time.now;
        overdue && (stair, self.vcpu(theirs.0).queued_at) < (own_stair, self.vcpu(own.0).queued_at)
    }

    /// Before a vCPU yields on a slot where none waits: rule 4.
    pub(super) fn pulls_for_yield(&mut self, slot: Slot, yields: VcpuId) {
        if self.queues[slot].len() > 0 {
            return;
        }
        let at_most = self.vcpu(yields).stair + REACH;
        if let Some(other) = self.another_queue(slot)
            && let Some((vcpu, stair)) = self.queues[other].staircase.head(&self.nodes)
            && stair <= at_most
        {
            self.pull(slot, vcpu);
        }
    }

    /// Another slot in whose queue vCPUs wait, a different one each time.
    pub(super) fn another_queue(&mut self, slot: Slot) -> Option<Slot> {
        if self.queues.are_one() {
            return None;
        }
        let from = Slot((self.probe % self.slots.len()) as u16);
        let other = self.waiting.after(from).filter(|&other| other != slot).or_else(|| self.waiting.after(slot))?;
        self.probe = other.index();
        (other != slot).then_some(other)
    }

    fn pull_next(&mut self, slot: Slot, other: Slot) {
        let q = &self.queues[other];
        let rt = q.rt.head(&self.nodes).map(|(vcpu, _)| vcpu);
        let normal = q.staircase.head(&self.nodes).map(|(vcpu, _)| vcpu);
        let idle = q.idlers.head(&self.nodes).map(|(vcpu, _)| vcpu);
        let next = if self.rt_may_run(slot) { rt.or(normal) } else { normal.or(rt) };
        next.or(idle).into_iter().for_each(|vcpu| self.pull(slot, vcpu));
    }

    /// Moves a queued vCPU into this slot's queue.
    fn pull(&mut self, slot: Slot, vcpu: VcpuId) {
        self.dequeue(vcpu);
        self.moves(vcpu, slot);
        self.enqueue(vcpu, Join::OldPlace);
    }

    /// A runnable vCPU that is in no queue has its home on this slot from now on.
    pub(super) fn moves(&mut self, vcpu: VcpuId, to: Slot) {
        let home = self.home(vcpu);
        if self.queues.owner(home) == self.queues.owner(to) {
            self.vcpu(vcpu).home = to;
            return;
        }
        let moves_to = self.moves_others_to(vcpu);
        self.weighs_on_home(vcpu, false);
        let from = std::mem::replace(&mut self.vcpu(vcpu).home, to);
        self.queue(from).residents -= 1;
        self.queue(to).residents += 1;
        self.weighs_on_home(vcpu, true);
        let (stair, left) = (self.vcpu(vcpu).stair, self.quota_left(vcpu));
        // A queue that was long without contention may be far behind.
        self.serve(to, moves_to.saturating_sub(DEEPEST));
        self.grant(to, stair, left);
    }
}
