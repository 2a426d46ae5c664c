//! A policy in a box is a policy. Every method is handed on, also those that have a default: one left out here would
//! answer for itself.

use super::contract::Policy;
use super::decision::{Decision, Placement, Resumed, Throttled, Why};
use super::travel::{Front, Progress, Spare, Traveller};
use super::yield_counts::YieldCounts;
use crate::attributes::Attributes;
use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn add(&mut self, vcpu: VcpuId, attributes: Attributes, now: Time) {
        (**self).add(vcpu, attributes, now);
    }

    fn remove(&mut self, vcpu: VcpuId) {
        (**self).remove(vcpu);
    }

    fn wake(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        (**self).wake(vcpu, now)
    }

    fn resume(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        (**self).resume(vcpu, now)
    }

    fn woken_by(&mut self, vcpu: VcpuId, waker: VcpuId) {
        (**self).woken_by(vcpu, waker);
    }

    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        (**self).next(slot, why, now)
    }

    fn taken(&mut self, slot: Slot, time: Nanos) {
        (**self).taken(slot, time);
    }

    fn overran(&mut self, slot: Slot) {
        (**self).overran(slot);
    }

    fn charge(&mut self, vcpu: VcpuId, time: Nanos, now: Time) {
        (**self).charge(vcpu, time, now);
    }

    fn lets_work(&self, vcpu: VcpuId) -> Time {
        (**self).lets_work(vcpu)
    }

    fn owes(&self, vcpu: VcpuId, now: Time) -> bool {
        (**self).owes(vcpu, now)
    }

    fn steals(&mut self, slot: Slot, thief: VcpuId, now: Time) -> bool {
        (**self).steals(slot, thief, now)
    }

    fn waiting(&self) -> usize {
        (**self).waiting()
    }

    fn alarm(&self) -> Time {
        (**self).alarm()
    }

    fn tick(&mut self, now: Time) -> Option<Resumed> {
        (**self).tick(now)
    }

    fn throttled(&self, vcpu: VcpuId, now: Time) -> Throttled {
        (**self).throttled(vcpu, now)
    }

    fn yield_counts(&self) -> Option<YieldCounts> {
        (**self).yield_counts()
    }

    fn spare(&self) -> Option<Spare> {
        (**self).spare()
    }

    fn stands(&self, vcpu: VcpuId) -> Option<u64> {
        (**self).stands(vcpu)
    }

    fn progress(&self) -> Progress {
        (**self).progress()
    }

    fn keeps_up(&mut self, front: Front, now: Time) {
        (**self).keeps_up(front, now);
    }

    fn follows(&self, vcpu: VcpuId) -> Option<VcpuId> {
        (**self).follows(vcpu)
    }

    fn departs(&mut self, vcpu: VcpuId, now: Time) -> Option<Traveller> {
        (**self).departs(vcpu, now)
    }

    fn arrives(
        &mut self,
        vcpu: VcpuId,
        attributes: Attributes,
        traveller: Traveller,
        slot: Slot,
        now: Time,
    ) -> Option<Placement> {
        (**self).arrives(vcpu, attributes, traveller, slot, now)
    }

    fn keeps_slot_over_exits(&self) -> bool {
        (**self).keeps_slot_over_exits()
    }

    fn is_told_of_lone_yields(&self) -> bool {
        (**self).is_told_of_lone_yields()
    }

    fn tells_presence(&self) -> bool {
        (**self).tells_presence()
    }
}
