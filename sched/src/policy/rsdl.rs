//! RSDL: the rotating staircase, on many slots, for vCPUs.
//!
//! Every vCPU stands on a [stair](matrix). Running uses up the quota it has there. Then it steps down to the next stair
//! its nice value allows, and what it ran too long is taken from the next quota. The lowest stair runs first, first
//! come first served. There is no guess at which vCPUs are interactive: a vCPU that uses little stays high.
//!
//! Rules, after Con Kolivas' RSDL and SD (2007), whose rotation and level become one number here:
//! 1. *Charge.* CPU time is charged to the vCPU that had it, and to no other, while there are more runnable vCPUs than
//!    slots. What runs while no vCPU waits costs nothing, and vCPUs that sleep meanwhile gain that time instead.
//!    Quotas shrink while many vCPUs can run ([`RsdlConfig::target_latency`]).
//! 2. *Rotation.* The stairs of the next rotation lie behind those of this one, so it begins when the last vCPU has
//!    left this one. The first generation also rotates level by level (`budgets`).
//! 3. *Sleep.* A vCPU comes back to the stair it left with the quota it had left, but never more than two stairs above
//!    the one being served: sleeping saves up no more than that.
//! 4. *Wake.* A woken vCPU takes a slot at once from one that stands on a worse stair, and queues on its own if there
//!    is none. Where there is a [grain](RsdlConfig::grain), "at once" is once that one has run for so long.
//!    A vCPU that a cap held back has not slept: it comes back on the stair being served, or below it where it left.
//! 5. *Start.* A new vCPU starts on the stair being served with half a quota, as a forked task shares its parent's
//!    slice: starting many gains nothing.
//! 6. *Yield*: see [`YieldRule`] and [`polite`].
//! 7. *Classes*: `rt` runs ahead of all stairs, within a [budget](rt), `idle` behind all of them; `batch` walks the
//!    staircase without going ahead by waking.
//!
//! 8. *Queues*: all slots share one run queue, or each has its own ([`RsdlConfig::per_pcpu_queues`]).
//!
//! Files: [`matrix`] says which stairs there are; `charge` moves vCPUs along them; `run_queue` queues and picks;
//! `pull` says what a slot takes from the queues of others, and `partners` which vCPUs share one; `lease` says which
//! vCPU runs on a slot and how long; `wake` says where a woken vCPU goes; [`polite`] says what a yield does, and
//! `silent` what a yield without a hint does; `bound` says how long a vCPU can wait.

use super::contract::Policy;
use super::decision::{Decision, Placement, Why};
use super::travel::{Front, Progress, Spare, Traveller};
use crate::attributes::Attributes;
use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};
use look::Look;
use matrix::Stair;
use peer::Peer;
use state::VcpuState;

mod bound;
mod budgets;
mod charge;
mod clock;
mod config;
mod lease;
pub(crate) mod limits;
mod look;
pub mod matrix;
mod partners;
mod peer;
mod peers;
pub mod polite;
mod polite_switches;
mod pull;
pub mod rt;
mod run_queue;
mod scale;
mod silent;
mod sleepers;
mod state;
mod travel;
mod wake;

pub use bound::wait_bound;
pub use config::{RsdlConfig, YieldRule};
pub(crate) use limits::LONGEST_LEASE;
pub use matrix::Variant;
pub use polite_switches::PoliteSwitches;
pub use state::Rsdl;

impl Policy for Rsdl {
    fn tells_presence(&self) -> bool {
        matches!(self.config.yield_rule, YieldRule::Polite(PoliteSwitches { tell_presence: true, .. }))
    }

    fn add(&mut self, vcpu: VcpuId, attributes: Attributes, now: Time) {
        let row = self.config.row_of(attributes);
        // As many on each slot.
        let home = Slot((self.next_home % self.slots.len()) as u16);
        self.next_home += 1;
        let stair = row.at_or_after(self.queue(home).served);
        let used = Nanos(row.quota.0 / 2);
        self.nodes.admit(vcpu);
        if self.vcpus.len() <= vcpu.index() {
            self.vcpus.resize(vcpu.index() + 1, None);
        }
        self.vcpus[vcpu.index()] = Some(Box::new(VcpuState {
            class: attributes.class,
            row,
            stair,
            used,
            home,
            on: None,
            queued_on: stair,
            queued_at: now,
            slept_at: self.time.so_far(now),
            slept: true,
            asleep_on: None,
            waits: false,
            waited_for: None,
            stays: 0,
            patience: 1,
            look: Look::unknown(),
            peer: Peer::default(),
            waker: Peer::default(),
            protected: false,
            came: false,
        }));
        self.grant(home, stair, Nanos(row.quota.0 - used.0));
        self.queue(home).residents += 1;
    }

    fn remove(&mut self, vcpu: VcpuId) {
        self.awakes(vcpu);
        if self.dequeue(vcpu) {
            self.runnable_changes(vcpu, false, self.time.now);
        } else if let Some(slot) = self.vcpu(vcpu).on {
            if self.slots[slot.index()].reserved.is_some_and(|(next, _)| next == vcpu) {
                self.take_reservation(slot);
            } else {
                self.slots[slot.index()].current = None;
                self.idle.insert(slot);
            }
            self.runnable_changes(vcpu, false, self.time.now);
        }
        self.forgets(vcpu);
    }

    fn wake(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        self.wakes(vcpu, now)
    }

    fn resume(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        self.resumes(vcpu, now)
    }

    fn woken_by(&mut self, vcpu: VcpuId, waker: VcpuId) {
        self.votes_for_waker(vcpu, waker);
        self.wakes_next = Some((vcpu, waker));
    }

    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        let Some(current) = self.slots[slot.index()].current else { return self.pick_idle(slot, now) };
        if why == Why::Free {
            // Placed here while the slot was idle: its time starts now.
            return self.install_fresh(slot, current, now);
        }
        self.charge(slot, now);
        if let Some((vcpu, lease_end)) = self.take_reservation(slot) {
            self.leaves(current, why, now);
            return self.install_pair(slot, vcpu, lease_end, now);
        }
        let mut decision = match why {
            Why::Check | Why::Exit | Why::Free => self.check(slot, current, now),
            Why::Yield(y) => self.yields(slot, current, y, now),
            Why::Block | Why::Retire => {
                self.leaves(current, why, now);
                self.pick_for(slot, now)
            }
        };
        // A wake limits its home only. While a vCPU waits, each question limits one more slot. So no slot is spared for
        // long, and no question tells all slots at once.
        if self.queued > 0 {
            decision.kick = decision.kick.or_else(|| self.limit_another(slot, now));
        }
        decision
    }

    fn taken(&mut self, slot: Slot, time: Nanos) {
        self.takes_off(slot, time);
    }

    fn overran(&mut self, slot: Slot) {
        self.slots[slot.index()].overran = true;
    }

    fn charge(&mut self, vcpu: VcpuId, time: Nanos, now: Time) {
        self.pays_for_work(vcpu, time, now);
    }

    fn owes(&self, vcpu: VcpuId, _: Time) -> bool {
        self.stands_too_deep(vcpu)
    }

    fn steals(&mut self, slot: Slot, thief: VcpuId, now: Time) -> bool {
        self.takes_from_equal(slot, thief, now)
    }

    fn waiting(&self) -> usize {
        self.queued + self.reserved
    }

    fn spare(&self) -> Option<Spare> {
        self.to_spare()
    }

    fn stands(&self, vcpu: VcpuId) -> Option<Stair> {
        self.stands_in_queue(vcpu)
    }

    fn progress(&self) -> Progress {
        self.got_to()
    }

    fn keeps_up(&mut self, front: Front, now: Time) {
        self.takes_over(front, now);
    }

    fn follows(&self, vcpu: VcpuId) -> Option<VcpuId> {
        self.vcpus[vcpu.index()].as_ref()?.waker.known()
    }

    fn departs(&mut self, vcpu: VcpuId, now: Time) -> Option<Traveller> {
        self.sends_off(vcpu, now)
    }

    fn arrives(
        &mut self,
        vcpu: VcpuId,
        attributes: Attributes,
        traveller: Traveller,
        slot: Slot,
        now: Time,
    ) -> Option<Placement> {
        self.add(vcpu, attributes, now);
        self.takes_in(vcpu, traveller, slot, now)
    }
}
