//! Charging: running moves a vCPU down the staircase, sleeping never does.

use super::limits::{COMPUTES, DEEPEST, LAG, LATE, STAYS, WORKS, deepest};
use super::matrix::{LEVELS, Stair};
use super::scale::Scale;
use super::state::Rsdl;
use crate::attributes::Class;
use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};

impl Rsdl {
    /// Charges the vCPU on a slot for what it ran since it was last charged.
    pub(super) fn charge(&mut self, slot: Slot, now: Time) {
        self.clock.now = now;
        let s = &mut self.slots[slot.index()];
        let Some(vcpu) = s.current else { return };
        let (from, unbroken) = (s.charged, now.since(s.since));
        s.charged = now;
        let lender = s.lender;
        // A vCPU cannot go on beyond its lease by itself: a kick ends it. What follows is a stall that the host may not
        // even tell of.
        let to = if s.endless { now } else { now.min(s.lease_end + LATE) };
        let paid = if self.clock.contended { to.since(from.max(self.clock.turned)) } else { Nanos::ZERO };
        let v = self.vcpus[vcpu.index()].as_mut().expect("a running vCPU is known");
        if unbroken >= COMPUTES {
            (v.waits, v.waited_for) = (false, None);
        }
        if unbroken >= WORKS {
            if v.stays > 0 {
                v.patience = (v.patience * 2).min(STAYS);
            }
            v.stays = 0;
        }
        let lender = lender.filter(|lender| self.vcpus[lender.index()].is_some());
        let payer = lender.unwrap_or(vcpu);
        match self.vcpu(payer).class {
            Class::Normal | Class::Batch => self.pay(payer, paid),
            Class::Rt => self.slots[slot.index()].rt_budget.use_up(now.since(from)),
            Class::Idle => {}
        }
    }

    /// The host took so much of the time since a slot's vCPU was last charged. Its lease lasts so much longer.
    pub(super) fn takes_off(&mut self, slot: Slot, time: Nanos) {
        let s = &mut self.slots[slot.index()];
        (s.charged, s.since, s.lease_end) = (s.charged + time, s.since + time, s.lease_end + time);
    }

    /// The stair on which the vCPU of a slot stands once it is charged for its time up to now, or up to its lease's
    /// end: what comes after that, the host may have taken.
    pub(super) fn stair_of_running(&self, slot: Slot, now: Time) -> Stair {
        let s = &self.slots[slot.index()];
        let Some(v) = s.current.and_then(|vcpu| self.vcpus[vcpu.index()].as_ref()) else { return Stair::MAX };
        let to = if s.endless { now } else { now.min(s.lease_end) };
        let ran = if self.clock.contended { to.since(s.charged.max(self.clock.turned)) } else { Nanos::ZERO };
        let (mut stair, mut used) = (v.stair, v.used + self.scale.nominal(ran));
        while used >= v.row.quota {
            (stair, used) = (v.row.after(stair), used - v.row.quota);
        }
        stair
    }

    fn pay(&mut self, vcpu: VcpuId, ran: Nanos) {
        let paid = self.scale.nominal(ran);
        let served = self.served;
        let v = self.vcpus[vcpu.index()].as_mut().expect("the vCPU that is charged is known");
        let (before, mut left) = (v.stair, paid);
        let exhausted = v.used + paid >= v.row.quota;
        // Each stair's budget pays for what was used of its quota.
        while v.used + left >= v.row.quota {
            let rest = v.row.quota.saturating_sub(v.used);
            left = left.saturating_sub(rest);
            if let Some(budgets) = &mut self.budgets {
                budgets.use_up(v.stair, rest);
            }
            (v.stair, v.used) = (v.row.after(v.stair), Nanos::ZERO);
            if let Some(budgets) = &mut self.budgets {
                budgets.grant(v.stair, v.row.quota);
            }
        }
        v.used += left;
        if let Some(budgets) = &mut self.budgets {
            budgets.use_up(v.stair, left);
        }
        if exhausted && !std::mem::take(&mut v.slept) {
            self.clock.hold(before);
        }
        let v = self.vcpu(vcpu);
        let deepest = deepest(v.row);
        if v.stair > served + deepest {
            let further = (v.stair - served - deepest).min(deepest);
            v.stair = v.stair.min(served + further + deepest);
            self.serve(served + further);
        }
        self.clock.pass(paid);
        self.clock.keep_within(self.served.saturating_sub(LEVELS), self.served + DEEPEST);
    }

    /// What a vCPU gains that slept while time was free: as if those that ran meanwhile had paid.
    pub(super) fn credit(&mut self, vcpu: VcpuId, now: Time) {
        let free = self.clock.free(now);
        let lowest = self.keeps();
        let v = self.vcpu(vcpu);
        let before = v.stair;
        let mut credit = Nanos(free.0 - v.slept_at.0);
        v.slept_at = free;
        while credit > v.used && v.stair > lowest {
            credit = credit.saturating_sub(v.used);
            (v.stair, v.used) = (v.row.before(v.stair), v.row.quota);
        }
        v.used = v.used.saturating_sub(credit);
        if v.used >= v.row.quota {
            // A whole quota used is the next stair.
            (v.stair, v.used) = (v.row.after(v.stair), Nanos::ZERO);
        }
        let after = v.stair;
        if after != before {
            let left = self.quota_left(vcpu);
            self.grant(after, left);
        }
    }

    /// Brings a vCPU that was left behind up to the lowest stair that sleeping or yielding may keep.
    pub(super) fn catch_up(&mut self, vcpu: VcpuId, lowest: Stair) {
        let v = self.vcpu(vcpu);
        if v.stair < lowest {
            let (stair, quota) = (v.row.at_or_after(lowest), v.row.quota);
            (v.stair, v.used) = (stair, Nanos::ZERO);
            self.grant(stair, quota);
        }
    }

    /// The lowest stair that a vCPU may keep that let others through: [`LAG`] above its share.
    pub(super) fn keeps(&self) -> Stair {
        self.served.max(self.clock.stair()) - LAG
    }

    pub(super) fn grant(&mut self, stair: Stair, quota: Nanos) {
        if let Some(budgets) = &mut self.budgets {
            budgets.grant(stair, quota);
        }
    }

    /// What a vCPU has left of its quota (nominal).
    pub(super) fn quota_left(&mut self, vcpu: VcpuId) -> Nanos {
        let v = self.vcpu(vcpu);
        v.row.quota.saturating_sub(v.used)
    }

    /// How long a vCPU can run until its quota is used up.
    pub(super) fn time_left(&mut self, vcpu: VcpuId) -> Nanos {
        let left = self.quota_left(vcpu);
        self.scale.real(left)
    }

    /// A vCPU falls asleep.
    pub(super) fn sleeps(&mut self, vcpu: VcpuId, now: Time) {
        let free = self.clock.free(now);
        let v = self.vcpu(vcpu);
        (v.on, v.slept_at, v.slept) = (None, free, true);
        let stair = v.stair;
        let counted = self.sleepers.enter(stair);
        self.vcpu(vcpu).asleep_on = Some(counted);
    }

    /// A vCPU sleeps no longer, if it did.
    pub(super) fn awakes(&mut self, vcpu: VcpuId) {
        let counted = self.vcpu(vcpu).asleep_on.take();
        counted.into_iter().for_each(|stair| self.sleepers.leave(stair));
    }

    /// A vCPU becomes runnable, or ceases to be.
    pub(super) fn runnable_changes(&mut self, vcpu: VcpuId, up: bool, now: Time) {
        self.clock.now = now;
        let v = self.vcpu(vcpu);
        let (class, per_rotation) = (v.class, v.row.per_rotation());
        self.runnable = if up { self.runnable + 1 } else { self.runnable - 1 };
        if matches!(class, Class::Normal | Class::Batch) {
            let rotation = &mut self.clock.rotation;
            *rotation = if up { *rotation + per_rotation } else { rotation.saturating_sub(per_rotation) };
        }
        self.scale = Scale::new(&self.config, self.runnable + self.sleepers.count(), self.slots.len());
        self.clock.turn(self.contended(), now);
    }
}
