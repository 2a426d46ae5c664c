//! Leases: which vCPU runs on a slot, and until when.

use super::config::YieldRule;
use super::limits::{DRIFT, brought};
use super::matrix::{LEVELS, Stair};
use super::run_queue::Join;
use super::state::Rsdl;
use crate::attributes::Class;
use crate::ids::{Slot, VcpuId};
use crate::policy::decision::{Decision, Why};
use crate::time::{Nanos, Time};
use crate::wait::Yield;

/// How long a vCPU runs before a woken one takes its slot. A vCPU that hands things to many others, and wakes each,
/// would otherwise be interrupted for each, and each would find one thing.
const GRAIN: Nanos = Nanos::from_micros(250);
/// No vCPU stands here: for a pick in the head's turn.
pub(super) const ANYWHERE: Stair = Stair::MAX;

impl Rsdl {
    /// Gives a slot to a vCPU that is in no list.
    pub(super) fn install(&mut self, slot: Slot, vcpu: VcpuId, lease_end: Time, now: Time) -> Decision {
        self.moves(vcpu, slot);
        let v = self.vcpu(vcpu);
        (v.on, v.came) = (Some(slot), false);
        let s = &mut self.slots[slot.index()];
        (s.current, s.charged, s.since, s.lease_end) = (Some(vcpu), now, now, lease_end);
        (s.paired, s.contested, s.lender) = (false, None, None);
        self.go_on(slot, vcpu)
    }

    /// A new lease.
    pub(super) fn install_fresh(&mut self, slot: Slot, vcpu: VcpuId, now: Time) -> Decision {
        let end = now + self.lease_of(slot, vcpu, now);
        self.install(slot, vcpu, end, now)
    }

    /// As long as the vCPU's quota lasts. If that is less than half of it, the next one as well: otherwise a vCPU that
    /// yields late in each quota would have every other turn for a sliver. In class rt, what is left of the slot's
    /// budget.
    pub(super) fn lease_of(&mut self, slot: Slot, vcpu: VcpuId, now: Time) -> Nanos {
        let (left, v) = (self.quota_left(vcpu), self.vcpu(vcpu));
        let (quota, class) = (v.row.quota, v.class);
        match class {
            Class::Rt => self.slots[slot.index()].rt_budget.left(now).max(Nanos(quota.0 / 8)),
            _ if left.0 < quota.0 / 2 => self.scale.real(left + quota),
            _ => self.scale.real(left),
        }
    }

    /// The vCPU on the slot goes on; limited only if another waits.
    pub(super) fn go_on(&mut self, slot: Slot, vcpu: VcpuId) -> Decision {
        let endless = self.queued + self.reserved == 0;
        let left = self.time_left(vcpu);
        let s = &mut self.slots[slot.index()];
        s.endless = endless;
        // Only a reservation waits, for another slot: there is no vCPU to give a used-up lease to.
        if !endless && s.lease_end <= s.charged {
            s.lease_end = s.charged + left;
        }
        let until = match endless {
            // Others may wait in another shard, and only a slot that asks looks there.
            true if self.config.shares => s.charged + self.config.rr_interval,
            true => Time::NEVER,
            false => s.lease_end,
        };
        if endless {
            self.unlimited.insert(slot)
        } else {
            self.unlimited.remove(slot)
        }
        Decision::run(vcpu, until)
    }

    /// The next one in the run queue, or idleness, for a slot whose vCPU has left.
    pub(super) fn pick_for(&mut self, slot: Slot, now: Time) -> Decision {
        self.pulls(slot);
        match self.pick(slot, ANYWHERE) {
            Some(vcpu) => self.install_fresh(slot, vcpu, now),
            None if self.reserved > 0 => self.take_over(slot, now),
            None => {
                self.slots[slot.index()].current = None;
                self.unlimited.remove(slot);
                self.idle.insert(slot);
                Decision::IDLE
            }
        }
    }

    pub(super) fn pick_idle(&mut self, slot: Slot, now: Time) -> Decision {
        if self.queued > 0 {
            self.idle.remove(slot);
        }
        self.pick_for(slot, now)
    }

    /// Lease end, kick, or a look round at an exit.
    pub(super) fn check(&mut self, slot: Slot, current: VcpuId, now: Time) -> Decision {
        if self.queued == 0 {
            return self.go_on(slot, current);
        }
        self.begin_lease(slot, current, now);
        // Only a wake takes a slot before the lease ends: a check for any other reason must not take back the turn that
        // a yield from a better stair has given.
        let contested = self.slots[slot.index()].contested.take();
        if self.slots[slot.index()].lease_end <= now {
            self.lease_over(slot, current, now)
        } else if let Some(woken) = contested
            && self.standing(slot, woken) < self.defends(slot, current)
        {
            let soonest = self.slots[slot.index()].since + GRAIN;
            if self.config.grain && now < soonest && self.vcpu(woken).class != Class::Rt {
                self.slots[slot.index()].contested = Some(woken);
                return self.go_on(slot, current).not_beyond(soonest);
            }
            if self.home(woken) != slot || !self.dequeue(woken) {
                return self.go_on(slot, current);
            }
            self.enqueue(current, Join::OldPlace);
            self.install_fresh(slot, woken, now)
        } else {
            self.go_on(slot, current)
        }
    }

    /// A lease that had no end while no vCPU waited gets one, now that one does.
    pub(super) fn begin_lease(&mut self, slot: Slot, current: VcpuId, now: Time) {
        let left = self.time_left(current);
        let s = &mut self.slots[slot.index()];
        if s.endless && s.lease_end <= now {
            s.lease_end = now + left;
        }
    }

    /// A used-up lease: to the tail of its stair, and the head runs; the same vCPU again, if its next stair is still
    /// above all others'.
    fn lease_over(&mut self, slot: Slot, current: VcpuId, now: Time) -> Decision {
        self.vcpu(current).protected = false;
        self.votes(slot, current, now);
        self.pulls_from_one_behind(slot, DRIFT, Some(current));
        self.enqueue(current, Join::Tail(0));
        self.pick_for(slot, now)
    }

    pub(super) fn yields(&mut self, slot: Slot, current: VcpuId, y: Yield, now: Time) -> Decision {
        if self.queued == 0 {
            return self.go_on(slot, current);
        }
        self.begin_lease(slot, current, now);
        self.pulls_from_one_behind(slot, DRIFT, Some(current));
        match self.config.yield_rule {
            YieldRule::None => self.check(slot, current, now),
            YieldRule::Expire => {
                let served = self.queue(slot).served;
                let v = self.vcpu(current);
                let next_rotation = (v.stair.max(served) / LEVELS + 1) * LEVELS;
                (v.stair, v.used) = (v.row.at_or_after(next_rotation), Nanos::ZERO);
                let (stair, quota) = (v.stair, v.row.quota);
                self.grant(slot, stair, quota);
                self.enqueue(current, Join::Tail(0));
                self.pick_for(slot, now)
            }
            YieldRule::Polite(switches) => {
                // It may have fallen behind in the queue of another slot. Yielding does not cost it that time.
                let lowest = self.keeps(slot) - brought(&self.config);
                self.catch_up(current, lowest);
                if self.slots[slot.index()].lease_end <= now {
                    return self.give_turn(slot, current, Join::Tail, now);
                }
                self.polite(switches, slot, current, y, now)
            }
        }
    }

    /// The vCPU on a slot makes room: for good, until it is woken, or evicted to its place in the run queue.
    pub(super) fn leaves(&mut self, current: VcpuId, why: Why, now: Time) {
        match why {
            Why::Block => {
                self.sleeps(current, now);
                self.runnable_changes(current, false, now);
            }
            Why::Retire => {
                self.runnable_changes(current, false, now);
                self.forgets(current);
            }
            _ => {
                self.vcpu(current).protected = true;
                self.enqueue(current, Join::OldPlace);
            }
        }
    }
}
