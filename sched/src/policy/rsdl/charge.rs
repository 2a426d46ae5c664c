//! Charging: running moves a vCPU down the staircase, sleeping never does.

use super::limits::{COMPUTES, DEEPEST, KICK_COST, LAG, LATE, STAYS, WORKS, deepest};
use super::matrix::{LEVELS, Stair};
use super::scale::Scale;
use super::sleepers::Sleepers;
use super::state::Rsdl;
use crate::attributes::Class;
use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};

impl Rsdl {
    /// Charges the vCPU on a slot for what it ran since it was last charged.
    pub(super) fn charge(&mut self, slot: Slot, now: Time) {
        self.time.now = now;
        let s = &mut self.slots[slot.index()];
        let Some(vcpu) = s.current else { return };
        let (from, unbroken) = (s.charged, now.since(s.since));
        s.charged = now;
        let lender = s.lender;
        // A vCPU cannot go on beyond its lease while it runs: a kick ends it. What follows is a stall that the host may
        // not even tell of, unless the driver knows that the vCPU's thread was at work for it.
        let overran = std::mem::take(&mut s.overran);
        let from_paid = from.max(self.time.turned);
        let in_time = match s.endless {
            true if overran => now.min(from_paid + LATE),
            true => now,
            false => now.min(s.lease_end + LATE),
        };
        let beyond = if overran && self.time.contended { now.since(in_time.max(from_paid)) } else { Nanos::ZERO };
        let paid = if self.time.contended { in_time.since(from_paid) } else { Nanos::ZERO };
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
            Class::Normal | Class::Batch => {
                self.pay(payer, paid);
                self.pays_beyond(vcpu, beyond);
            }
            Class::Rt => self.slots[slot.index()].rt_budget.use_up(now.since(from)),
            Class::Idle => {}
        }
    }

    /// See [`Policy::charge`](crate::policy::Policy::charge). As for what it runs, a vCPU pays while vCPUs wait.
    pub(super) fn pays_for_work(&mut self, vcpu: VcpuId, time: Nanos, now: Time) {
        self.time.now = now;
        if self.time.contended && self.vcpus.get(vcpu.index()).is_some_and(Option::is_some) {
            self.pays_beyond(vcpu, time);
        }
    }

    /// A vCPU pays for what was in no lease. It may come to stand as far down as that takes, and moves no other vCPU
    /// along. With a [budget](super::budgets) for each stair, it falls no further than these are kept.
    pub(super) fn pays_beyond(&mut self, vcpu: VcpuId, time: Nanos) {
        let paid = self.scale.nominal(time);
        let home = self.home(vcpu);
        let (served, is_limited) = (self.queues[home].served, self.queues[home].budgets.is_some());
        let v = self.vcpu(vcpu);
        if paid == Nanos::ZERO || !matches!(v.class, Class::Normal | Class::Batch) {
            return;
        }
        let before = v.stair;
        (v.stair, v.used) = v.row.spend(v.stair, v.used, paid);
        if is_limited && v.stair > before {
            v.stair = v.row.at_or_after(v.stair.min(served + 2 * deepest(v.row)).max(before));
            let (stair, left) = (v.stair, v.row.quota.saturating_sub(v.used));
            self.grant(home, stair, left);
        }
    }

    /// A wake makes the slot ask. The vCPU that caused it pays for that, and the one there does not: the waker, or if
    /// that is not known here, the woken one.
    pub(super) fn pays_for_kick(&mut self, slot: Slot, woken: VcpuId, waker: Option<VcpuId>) {
        let known = |waker: &VcpuId| self.vcpus.get(waker.index()).is_some_and(Option::is_some);
        let payer = waker.filter(known).unwrap_or(woken);
        // An exit of its own is no kick.
        if self.slots[slot.index()].current == Some(payer) || !self.time.contended {
            return;
        }
        if matches!(self.vcpu(payer).class, Class::Normal | Class::Batch) {
            self.pays_beyond(payer, KICK_COST);
            self.slots[slot.index()].charged = self.slots[slot.index()].charged + KICK_COST;
        }
    }

    /// Where a vCPU stands as far as that moves others: what it owes beyond keeps it alone waiting.
    pub(super) fn moves_others_to(&mut self, vcpu: VcpuId) -> Stair {
        let home = self.home(vcpu);
        let served = self.queues[home].served;
        let v = self.vcpu(vcpu);
        v.stair.min(served + 2 * deepest(v.row))
    }

    /// Whether a vCPU stands further down than the wait bound reckons with.
    pub(super) fn stands_too_deep(&self, vcpu: VcpuId) -> bool {
        let v = self.vcpus.get(vcpu.index()).and_then(Option::as_ref);
        v.is_some_and(|v| v.stair > self.queues[v.home].served + deepest(v.row))
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
        let ran = if self.time.contended { to.since(s.charged.max(self.time.turned)) } else { Nanos::ZERO };
        v.row.spend(v.stair, v.used, self.scale.nominal(ran)).0
    }

    fn pay(&mut self, vcpu: VcpuId, ran: Nanos) {
        let paid = self.scale.nominal(ran);
        let v = self.vcpus[vcpu.index()].as_mut().expect("the vCPU that is charged is known");
        let home = v.home;
        let q = &mut self.queues[home];
        q.pace.allow_for(&self.time);
        let (before, rest) = (v.stair, v.row.quota - v.used);
        let exhausted = paid >= rest;
        (v.stair, v.used) = v.row.spend(v.stair, v.used, paid);
        if let Some(budgets) = &mut q.budgets {
            // A stair's budget pays for what was used of its quota. Those between would be granted and use up the same.
            budgets.use_up(before, paid.min(rest));
            if exhausted {
                budgets.grant(v.stair, v.row.quota - v.used);
            }
        }
        if exhausted && !std::mem::take(&mut v.slept) {
            q.pace.hold(before);
        }
        let (served, deepest) = (q.served, deepest(v.row));
        if v.stair > served + deepest {
            // One that stood beyond has more to pay, and does not move others by that.
            let owed = before.saturating_sub(served + deepest);
            let further = (v.stair - served - deepest - owed).min(deepest);
            v.stair = v.stair.min(served + further + deepest + owed);
            self.serve(home, served + further);
        }
        let q = self.queue(home);
        q.pace.pass(paid);
        q.pace.keep_within(q.served.saturating_sub(LEVELS), q.served + DEEPEST);
    }

    /// What a vCPU gains that slept while time was free: as if those that ran meanwhile had paid.
    pub(super) fn credit(&mut self, vcpu: VcpuId, now: Time) {
        let free = self.time.so_far(now);
        let home = self.home(vcpu);
        let lowest = self.keeps(home);
        let v = self.vcpu(vcpu);
        let before = v.stair;
        let credit = free - v.slept_at;
        v.slept_at = free;
        (v.stair, v.used) = v.row.regain(v.stair, v.used, credit, lowest);
        let after = v.stair;
        if after != before {
            let left = self.quota_left(vcpu);
            self.grant(home, after, left);
        }
    }

    /// Brings a vCPU that was left behind up to the lowest stair that sleeping or yielding may keep.
    pub(super) fn catch_up(&mut self, vcpu: VcpuId, lowest: Stair) {
        let v = self.vcpu(vcpu);
        if v.stair < lowest {
            let (home, stair, quota) = (v.home, v.row.at_or_after(lowest), v.row.quota);
            (v.stair, v.used) = (stair, Nanos::ZERO);
            self.grant(home, stair, quota);
        }
    }

    /// The lowest stair that a vCPU of a slot may keep that lets others through: [`LAG`] above its share.
    pub(super) fn keeps(&mut self, slot: Slot) -> Stair {
        let q = &mut self.queues[slot];
        q.pace.allow_for(&self.time);
        q.served.max(q.pace.stair()) - LAG
    }

    pub(super) fn grant(&mut self, slot: Slot, stair: Stair, quota: Nanos) {
        if let Some(budgets) = &mut self.queue(slot).budgets {
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
        let free = self.time.so_far(now);
        let v = self.vcpu(vcpu);
        (v.on, v.slept_at, v.slept) = (None, free, true);
        let (home, stair) = (v.home, v.stair);
        let counted = self.changes_sleepers(home, |sleepers| sleepers.enter(stair));
        self.vcpu(vcpu).asleep_on = Some(counted);
    }

    /// A vCPU sleeps no longer, if it did.
    pub(super) fn awakes(&mut self, vcpu: VcpuId) {
        let v = self.vcpu(vcpu);
        let (home, counted) = (v.home, v.asleep_on.take());
        counted.into_iter().for_each(|stair| self.changes_sleepers(home, |sleepers| sleepers.leave(stair)));
    }

    fn changes_sleepers<R>(&mut self, home: Slot, change: impl FnOnce(&mut Sleepers) -> R) -> R {
        let sleepers = &mut self.queue(home).sleepers;
        let before = sleepers.count();
        let changed = change(sleepers);
        let after = sleepers.count();
        self.asleep = self.asleep + after - before;
        changed
    }

    /// A vCPU becomes runnable, or ceases to be.
    pub(super) fn runnable_changes(&mut self, vcpu: VcpuId, up: bool, now: Time) {
        self.time.now = now;
        self.runnable = if up { self.runnable + 1 } else { self.runnable - 1 };
        self.weighs_on_home(vcpu, up);
        let home = self.home(vcpu);
        let served = self.queues[home].served;
        self.crowd.counts(self.runnable + self.asleep, served);
        if self.quota.is_none() {
            self.scale = Scale::new(&self.config, self.crowd.most(), self.slots.len());
        }
        self.time.turn(self.is_charged(), now);
    }

    /// The rotation of a vCPU's home has to hold it, or no longer.
    pub(super) fn weighs_on_home(&mut self, vcpu: VcpuId, up: bool) {
        let v = self.vcpu(vcpu);
        let (home, class, per_rotation) = (v.home, v.class, v.row.per_rotation());
        if matches!(class, Class::Normal | Class::Batch) {
            let rotation = &mut self.queue(home).pace.rotation;
            *rotation = if up { *rotation + per_rotation } else { rotation.saturating_sub(per_rotation) };
        }
    }
}
