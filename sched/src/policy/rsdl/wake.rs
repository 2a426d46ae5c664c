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
        let home = self.home(vcpu);
        let lowest = self.keeps(home);
        self.catch_up(vcpu, lowest);
        let waker = self.wakes_next.take().filter(|&(woken, _)| woken == vcpu).map(|(_, waker)| waker);
        let placement = self.arrives_at_home(vcpu, now);
        if let Placement::Preempt(slot) = placement {
            self.pays_for_kick(slot, vcpu, waker);
        }
        placement
    }

    /// See [`Policy::resume`](crate::policy::Policy::resume). What a sleeper gains would let a hog under a cap stand
    /// beside vCPUs that do sleep, which then wait for it.
    pub(super) fn resumes(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        self.awakes(vcpu);
        self.runnable_changes(vcpu, true, now);
        let home = self.home(vcpu);
        self.catch_up(vcpu, self.queues[home].served);
        self.arrives_at_home(vcpu, now)
    }

    /// A vCPU that can run from now on goes to an idle slot, takes its home from a vCPU that stands worse, or queues
    /// there.
    pub(super) fn arrives_at_home(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        let v = self.vcpu(vcpu);
        v.waits = false;
        let home = v.home;
        let near = Some(home).filter(|_| self.config.affinity);
        if let Some(slot) = self.idle.nearest(near, &self.topology) {
            self.idle.remove(slot);
            self.moves(vcpu, slot);
            self.place(slot, vcpu, now);
            return Placement::Run(slot);
        }
        let home = self.partners_home(vcpu).unwrap_or(home);
        self.moves(vcpu, home);
        match self.victim(vcpu, now) {
            Some(slot) => {
                self.moves(vcpu, slot);
                self.enqueue(vcpu, Join::Tail(0));
                self.slots[slot.index()].contested = Some(vcpu);
                Placement::Preempt(slot)
            }
            None => {
                self.enqueue(vcpu, Join::Tail(0));
                Placement::Queue(self.limit(home))
            }
        }
    }

    /// The slot is this vCPU's, and asks next. The vCPU has no lease until then. What is left of the last vCPU's lease
    /// must not look like a lease of this one.
    fn place(&mut self, slot: Slot, vcpu: VcpuId, now: Time) {
        let s = &mut self.slots[slot.index()];
        (s.current, s.charged, s.since) = (Some(vcpu), now, now);
        (s.lease_end, s.endless) = (now, false);
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
        self.moves(thief, slot);
        self.enqueue(robbed, Join::OldPlace);
        self.place(slot, thief, now);
        true
    }

    /// A slot whose vCPU stands worse than the woken one, and does not have to make room already: its home, or one
    /// more, a different one each time, where that shares the queue. Class rt looks at one more in any case: it does
    /// not wait in line.
    fn victim(&mut self, woken: VcpuId, now: Time) -> Option<Slot> {
        let v = self.vcpu(woken);
        let (home, class) = (v.home, v.class);
        if matches!(class, Class::Batch | Class::Idle) {
            return None;
        }
        let known = Some(home).filter(|_| self.config.affinity || !self.queues.are_one());
        let other = (class == Class::Rt || self.queues.are_one()).then(|| {
            // The next slot in turn, but not the known one again.
            for _ in 0..2 {
                self.probe = (self.probe + 1) % self.slots.len();
                if known != Some(Slot(self.probe as u16)) {
                    break;
                }
            }
            Slot(self.probe as u16)
        });
        known.into_iter().chain(other).find(|&slot| {
            let s = &self.slots[slot.index()];
            match (s.current, s.contested) {
                (Some(current), None) => {
                    self.defends(slot, current).max(self.stair_of_running(slot, now)) > self.standing(slot, woken)
                }
                _ => false,
            }
        })
    }

    /// The stair on which the vCPU of a slot keeps it from one that wakes up. One that fell behind elsewhere runs first
    /// here, but does not keep those waiting.
    pub(super) fn defends(&mut self, slot: Slot, current: VcpuId) -> Stair {
        let (stair, slept) = (self.standing(slot, current), self.vcpu(current).slept);
        let served = self.queues[slot].served;
        // Those that sleep stand up to LAG above the served stair, and keep their turns from each other.
        let fell_behind = stair > 0 && stair < served && !slept && !self.queues.are_one();
        if fell_behind { served } else { stair }
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

    /// A slot whose vCPU has no limit, and is to get one now that another waits: this one, or any other that shares its
    /// queue.
    fn limit(&mut self, home: Slot) -> Option<Slot> {
        let slot = match self.unlimited.contains(home) {
            true => home,
            false if self.queues.are_one() => self.unlimited.first()?,
            false => return None,
        };
        self.unlimited.remove(slot);
        Some(slot)
    }

    /// A slot whose vCPU has no limit, and is to get one now that others wait; for those that wait for another slot,
    /// once it has run for longer than a quota.
    pub(super) fn limit_another(&mut self, slot: Slot, now: Time) -> Option<Slot> {
        let other = self.unlimited.after(slot)?;
        let long = now.since(self.slots[other.index()].since) >= self.config.rr_interval;
        if !long && !self.queues.are_one() {
            return None;
        }
        self.unlimited.remove(other);
        Some(other)
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
