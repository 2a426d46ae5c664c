//! Waking: where a vCPU goes that can run again.

use super::matrix::Stair;
use super::run_queue::Join;
use super::state::Rsdl;
use crate::attributes::Class;
use crate::ids::{Slot, VcpuId};
use crate::policy::decision::Placement;
use crate::time::Time;

impl Rsdl {
    pub(super) fn wakes(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        self.awakes(vcpu);
        self.credit(vcpu, now);
        self.runnable_changes(vcpu, true, now);
        let lowest = self.keeps();
        self.catch_up(vcpu, lowest);
        self.arrives(vcpu, now)
    }

    /// See [`Policy::resume`](crate::policy::Policy::resume). What a sleeper gains would let a hog under a cap stand
    /// beside vCPUs that do sleep, which then wait for it.
    pub(super) fn resumes(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        self.awakes(vcpu);
        self.runnable_changes(vcpu, true, now);
        self.catch_up(vcpu, self.served);
        self.arrives(vcpu, now)
    }

    /// A vCPU that can run from now on goes to an idle slot, to one whose vCPU stands worse, or into the run queue.
    fn arrives(&mut self, vcpu: VcpuId, now: Time) -> Placement {
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

    /// See [`Policy::steals`](crate::policy::Policy::steals). A vCPU that was given a slot for a pair keeps it. A class
    /// that does not go ahead by waking does not steal. The robbed vCPU has not run, so it pays nothing.
    pub(super) fn takes_from_equal(&mut self, slot: Slot, thief: VcpuId, now: Time) -> bool {
        let s = &self.slots[slot.index()];
        let Some(robbed) = s.current else { return false };
        let kept = s.paired || s.reserved.is_some() || self.vcpu(robbed).class == Class::Rt;
        if kept || self.vcpu(thief).class != Class::Normal || self.standing(slot, thief) > self.standing(slot, robbed) {
            return false;
        }
        if !self.dequeue(thief) {
            return false;
        }
        self.enqueue(robbed, Join::OldPlace);
        self.place(slot, thief, now);
        true
    }

    /// A slot whose vCPU stands worse than this one: the slot the woken one knows, or one more. `None` if both are
    /// better or have to make room already.
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
        for slot in known.into_iter().chain([other]) {
            let s = &self.slots[slot.index()];
            if let (Some(current), None) = (s.current, s.contested)
                && self.standing(slot, current).max(self.stair_of_running(slot, now)) > self.standing(slot, woken)
            {
                return Some(slot);
            }
        }
        None
    }

    /// A vCPU's stair, as far as its class lets it count on this slot.
    pub(super) fn standing(&mut self, slot: Slot, vcpu: VcpuId) -> Stair {
        let rt_may_run = self.rt_may_run(slot);
        match self.vcpus.get(vcpu.index()).and_then(Option::as_ref) {
            Some(v) if v.class == Class::Rt && rt_may_run => 0,
            Some(v) if v.class == Class::Normal || v.class == Class::Batch => v.stair,
            _ => Stair::MAX,
        }
    }

    /// A slot whose vCPU has no limit, which is to get one now that another waits.
    pub(super) fn limit_one(&mut self, last: Option<Slot>) -> Option<Slot> {
        let known = last.filter(|&slot| self.unlimited.contains(slot));
        let slot = known.or_else(|| self.unlimited.first())?;
        self.unlimited.remove(slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::Attributes;
    use crate::policy::contract::Policy;
    use crate::policy::decision::Why;
    use crate::policy::rsdl::config::RsdlConfig;
    use crate::time::{Nanos, Time};
    use proptest::prelude::*;

    const HOG: VcpuId = VcpuId(0);
    const SLEEPER: VcpuId = VcpuId(1);
    const P0: Slot = Slot(0);

    proptest! {
        /// Then what a wake takes is the host's and the mechanism's time alone, not a lease's. Before, both may stand
        /// on the stair on which they were added; each wait there is one of the two or so leases that a first quota
        /// makes.
        #[test]
        fn who_sleeps_more_than_it_runs_takes_the_slot_at_once_of_one_that_has_used_up_its_first_quota(
            spans in prop::collection::vec((1..500u64, 1..10u64), 20..100),
        ) {
            let mut policy = Rsdl::new(RsdlConfig::default(), 1);
            let mut now = Time(0);
            policy.add(HOG, Attributes::default(), now);
            policy.add(SLEEPER, Attributes::default(), now);
            prop_assert_eq!(policy.wake(HOG, now), Placement::Run(P0));
            let _ = policy.next(P0, Why::Free, now);
            let (first, _) = policy.position(HOG);
            let mut waits = 0;
            for (runs, times) in spans {
                now = now + Nanos::from_micros(runs * (1 + times));
                let (stair, _) = policy.position(HOG);
                if policy.wake(SLEEPER, now) != Placement::Preempt(P0) {
                    prop_assert_eq!(stair, first);
                    waits += 1;
                }
                while policy.next(P0, Why::Check, now).run.is_some_and(|lease| lease.vcpu == HOG) {
                    now = now + Nanos::from_millis(1);
                }
                now = now + Nanos::from_micros(runs);
                prop_assert_eq!(policy.next(P0, Why::Block, now).run.map(|lease| lease.vcpu), Some(HOG));
            }
            prop_assert!(waits <= 2, "{} waits", waits);
        }
    }
}
