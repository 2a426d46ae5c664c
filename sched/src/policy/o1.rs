//! O(1): Linux' scheduler from 2.5.2 to 2.6.22, by Ingo Molnar, as a policy for vCPUs.
//!
//! Every slot has a run queue of its own. Picking takes the first of the best level of its active array, whatever the
//! number of vCPUs. A vCPU that has used up its slice goes to the expired array. When the active array is empty the two
//! change places. A guess at which vCPUs are interactive (`interactivity.rs`) moves a vCPU up to five levels up or
//! down, and lets it go round among the active. That guess is what this policy is here to show: it serves many at the
//! price of a newcomer, which waits for as many seconds as there are others (`o1_start_up_starvation` in
//! `regressions.rs`).
//!
//! Rules, as of Linux 2.6.11 to 2.6.15:
//! 1. *Slice.* 100 ms at nice 0, 800 ms at nice -20, 5 ms at nice 19; what is left of it is kept over sleep, preemption
//!    and yield.
//! 2. *Slice over.* A new slice and the level anew; to the tail of the expired array, or of the active one if
//!    interactive. But once the first expired one has waited for a second times the number of runnable vCPUs on the
//!    slot, or one of better nice value has expired, interactive ones expire too.
//! 3. *Turns.* Interactive vCPUs of one level take turns, shorter ones the better their bonus.
//! 4. *Sleep.* Sleeping earns bonus, running costs it; of the time from a wake until it runs, 30 % count as sleep.
//! 5. *Wake.* On the slot it last ran on if that is idle, else on the nearest idle one, else it queues on the former,
//!    active, ahead of the vCPU that runs there if its level is better.
//! 6. *Yield.* To the tail of the expired array with what is left of its slice, whatever it waits for.
//! 7. *Balance.* A slot that runs out of work takes some from the longest of eight queues; a busy one looks round every
//!    200 ms and takes half of the difference, if that is a quarter of the longest or more.
//!
//! What differs: time is charged to the nanosecond instead of by tick; a new vCPU has no parent, so it starts without
//! bonus and with half a slice; and balancing looks at the next eight queues with work in them and moves eight vCPUs at
//! most, so that every decision takes bounded time. Classes, which Linux got later: rt is a FIFO above all levels,
//! without slices; batch earns no bonus and preempts only idle; idle runs while no level has work, here or where it
//! could be taken from.
//!
//! A vCPU steals a slot only from its equals and from worse ones, and only when it has just been woken.
//!
//! Invariant: while a slot is idle, no vCPU is queued anywhere.

mod interactivity;
mod runqueue;
mod vcpu;

use super::contract::Policy;
use super::decision::{Decision, Placement, Why};
use super::slotset::SlotSet;
use crate::attributes::{Attributes, Class};
use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};
use crate::topology::Topology;
pub use interactivity::slice;
use interactivity::{LEVELS, LONGEST_SLICE, MOST_SLEEP, static_level};
use runqueue::{Place, Rank, RunQueues};
use vcpu::VcpuState;

/// The longest lease: that of nice -20. A vCPU without slices is asked again that often, and goes on.
pub(crate) const LONGEST_LEASE: Nanos = LONGEST_SLICE;
/// Queues that balancing looks at, so that its time is bounded.
const LOOK: usize = 8;
/// vCPUs that periodic balancing moves at most, for the same reason.
const MOST_MOVED: usize = 8;
/// How often a busy slot looks for work. Linux: 200 ms.
pub(crate) const BALANCE_EVERY: Nanos = Nanos::from_millis(200);
/// Part of the time queued after a wake that counts as sleep (unit: percent). Linux: ON_RUNQUEUE_WEIGHT.
const QUEUED_COUNTS: u64 = 30;

#[derive(Debug, Clone)]
struct SlotState {
    current: Option<VcpuId>,
    /// Charged up to here.
    charged: Time,
    /// How long the vCPU has run of its turn.
    turn: Nanos,
    /// When the first slice of this round was over.
    expired_since: Option<Time>,
    /// The best static level in the expired array.
    best_expired: u8,
    balance_at: Time,
}

/// The policy.
#[derive(Debug)]
pub struct O1 {
    vcpus: Vec<Option<VcpuState>>,
    slots: Vec<SlotState>,
    queues: RunQueues,
    topology: Topology,
    idle: SlotSet,
    /// Slots that run a vCPU of class idle.
    idling: SlotSet,
    /// Slots that run a vCPU of another class than rt.
    below_rt: SlotSet,
    /// Where the next new vCPU is at home.
    next_home: usize,
}

impl O1 {
    /// A policy for this many slots, all idle.
    pub fn new(slots: usize) -> Self {
        let mut idle = SlotSet::new(slots);
        (0..slots).for_each(|slot| idle.insert(Slot(slot as u16)));
        let slot = SlotState {
            current: None,
            charged: Time(0),
            turn: Nanos::ZERO,
            expired_since: None,
            best_expired: LEVELS,
            balance_at: Time(0) + BALANCE_EVERY,
        };
        Self {
            vcpus: Vec::new(),
            slots: vec![slot; slots],
            queues: RunQueues::new(slots),
            topology: Topology::default(),
            idle,
            idling: SlotSet::new(slots),
            below_rt: SlotSet::new(slots),
            next_home: 0,
        }
    }

    /// This policy on slots that are this near to each other.
    pub fn with_topology(self, topology: Topology) -> Self {
        Self { topology, ..self }
    }

    /// Number of vCPUs that wait in a slot's queue.
    #[cfg(test)]
    pub(crate) fn queued_on(&self, slot: Slot) -> usize {
        self.queues.len_of(slot)
    }

    fn vcpu(&self, vcpu: VcpuId) -> &VcpuState {
        self.vcpus[vcpu.index()].as_ref().expect("the driver names only vCPUs it added")
    }

    fn vcpu_mut(&mut self, vcpu: VcpuId) -> &mut VcpuState {
        self.vcpus[vcpu.index()].as_mut().expect("the driver names only vCPUs it added")
    }

    /// The slot is this vCPU's from now on.
    fn occupy(&mut self, slot: Slot, vcpu: VcpuId, now: Time) {
        let s = &mut self.slots[slot.index()];
        (s.current, s.charged, s.turn) = (Some(vcpu), now, Nanos::ZERO);
        self.idle.remove(slot);
        let v = self.vcpu_mut(vcpu);
        v.home = slot;
        let class = v.class;
        if class == Class::Idle {
            self.idling.insert(slot)
        } else {
            self.idling.remove(slot)
        }
        if class == Class::Rt { self.below_rt.remove(slot) } else { self.below_rt.insert(slot) }
    }

    /// No vCPU has the slot any more.
    fn vacate(&mut self, slot: Slot) {
        let s = &mut self.slots[slot.index()];
        (s.current, s.expired_since, s.best_expired) = (None, None, LEVELS);
        self.idle.insert(slot);
        self.idling.remove(slot);
        self.below_rt.remove(slot);
    }

    /// Charges the vCPU on a slot for what it ran; true if its slice is over, and then it has a new one.
    fn charge(&mut self, slot: Slot, current: VcpuId, now: Time) -> bool {
        let s = &mut self.slots[slot.index()];
        let ran = now.since(s.charged);
        s.charged = now;
        s.turn += ran;
        let v = self.vcpu_mut(current);
        v.sleep.ran(ran);
        v.slice = v.slice.saturating_sub(ran);
        if v.slice > Nanos::ZERO || v.class == Class::Rt {
            return false;
        }
        v.slice = slice(v.nice);
        v.level = v.sleep.level(v.nice);
        true
    }

    /// Queues a vCPU whose slice is over, and returns its place.
    fn expire(&mut self, slot: Slot, vcpu: VcpuId, now: Time) -> Place {
        let (rank, level, own) = {
            let v = self.vcpu(vcpu);
            (v.rank(), v.level, static_level(v.nice))
        };
        if rank == Rank::Idle {
            return Place::Active(rank);
        }
        let runnable = self.queues.len_of(slot) as u64 + 1;
        let interactive = self.vcpu(vcpu).is_interactive();
        let s = &mut self.slots[slot.index()];
        let waited = now.since(*s.expired_since.get_or_insert(now));
        let starving = waited.0 >= MOST_SLEEP.0 * runnable || own > s.best_expired;
        if interactive && !starving {
            return Place::Active(rank);
        }
        s.best_expired = s.best_expired.min(own);
        Place::Expired(level)
    }

    /// Gives a slot to a vCPU that is queued nowhere.
    fn install(&mut self, slot: Slot, vcpu: VcpuId, now: Time) -> Decision {
        self.occupy(slot, vcpu, now);
        let v = self.vcpu_mut(vcpu);
        if let Some(woken) = v.woken.take() {
            v.earn(Nanos(now.since(woken).0 * QUEUED_COUNTS / 100));
        }
        self.go_on(slot, vcpu)
    }

    /// The vCPU on the slot goes on to the end of its slice or turn.
    fn go_on(&self, slot: Slot, vcpu: VcpuId) -> Decision {
        let (s, v) = (&self.slots[slot.index()], self.vcpu(vcpu));
        let span = match v.turn(self.slots.len()) {
            _ if v.class == Class::Rt => LONGEST_LEASE,
            Some(turn) if s.turn < turn => v.slice.min(turn.saturating_sub(s.turn)),
            _ => v.slice,
        };
        Decision::run(vcpu, s.charged + span)
    }

    /// The next vCPU of the slot's queue. A vCPU from another queue comes before one of class idle, and before
    /// idleness.
    fn pick(&mut self, slot: Slot, now: Time) -> Decision {
        if self.queues.has_no_work(slot)
            && let Some(from) = self.longest_queue(slot)
        {
            self.pull(from, slot);
        }
        let Some((next, new_round)) = self.queues.pop(slot) else {
            self.vacate(slot);
            return Decision::IDLE;
        };
        if new_round {
            let s = &mut self.slots[slot.index()];
            (s.expired_since, s.best_expired) = (None, LEVELS);
        }
        self.install(slot, next, now)
    }

    /// The longest of the next eight queues that are not empty, but for the slot's own.
    fn longest_queue(&self, slot: Slot) -> Option<Slot> {
        let behind = |from: &Slot| self.queues.busy().after(*from).filter(|&next| next != slot);
        let others = std::iter::successors(behind(&slot), behind).take(LOOK);
        others.max_by_key(|&other| self.queues.len_of(other))
    }

    /// Moves a vCPU from one queue to another.
    fn pull(&mut self, from: Slot, to: Slot) {
        if let Some((vcpu, place)) = self.queues.give_away(from) {
            self.vcpu_mut(vcpu).home = to;
            self.queues.push_back(to, vcpu, place);
        }
    }

    /// Takes work from a slot that has more, now and then.
    fn balance(&mut self, slot: Slot, now: Time) {
        let s = &mut self.slots[slot.index()];
        if now < s.balance_at {
            return;
        }
        s.balance_at = now + BALANCE_EVERY;
        let Some(from) = self.longest_queue(slot) else { return };
        let (longest, own) = (self.queues.len_of(from) + 1, self.queues.len_of(slot) + 1);
        let surplus = longest.saturating_sub(own) / 2;
        if surplus * 4 >= longest {
            (0..surplus.min(MOST_MOVED)).for_each(|_| self.pull(from, slot));
        }
    }

    /// Slice or turn over, a kick, or a look round.
    fn check(&mut self, slot: Slot, current: VcpuId, slice_over: bool, now: Time) -> Decision {
        if slice_over {
            let place = self.expire(slot, current, now);
            self.queues.push_back(slot, current, place);
            return self.pick(slot, now);
        }
        let rank = self.vcpu(current).rank();
        let turn = self.vcpu(current).turn(self.slots.len());
        if self.queues.best(slot).is_some_and(|best| best < rank) {
            self.queues.push_front(slot, current, rank);
        } else if turn.is_some_and(|turn| self.slots[slot.index()].turn >= turn) {
            let v = self.vcpu_mut(current);
            v.level = v.sleep.level(v.nice);
            let place = Place::Active(v.rank());
            self.queues.push_back(slot, current, place);
        } else {
            return self.go_on(slot, current);
        }
        self.pick(slot, now)
    }

    fn yields(&mut self, slot: Slot, current: VcpuId, now: Time) -> Decision {
        let place = match self.vcpu(current).rank() {
            Rank::Level(level) => Place::Expired(level),
            rank => Place::Active(rank),
        };
        self.queues.push_back(slot, current, place);
        self.pick(slot, now)
    }

    /// A busy slot on which a woken vCPU goes ahead of the vCPU there: its home, or a slot where it need not wait for
    /// its equals.
    fn victim(&self, vcpu: VcpuId) -> Option<Slot> {
        let v = self.vcpu(vcpu);
        let home = Some(v.home).filter(|_| v.class != Class::Batch);
        let rt = self.below_rt.first().filter(|_| v.class == Class::Rt);
        let worse =
            |slot: &Slot| self.slots[slot.index()].current.is_some_and(|current| self.vcpu(current).rank() > v.rank());
        [self.idling.first(), home, rt].into_iter().flatten().find(worse)
    }
}

impl Policy for O1 {
    fn add(&mut self, vcpu: VcpuId, attributes: Attributes, _now: Time) {
        self.queues.admit(vcpu);
        if self.vcpus.len() <= vcpu.index() {
            self.vcpus.resize(vcpu.index() + 1, None);
        }
        let home = Slot(self.next_home as u16);
        self.vcpus[vcpu.index()] = Some(VcpuState::new(attributes, home));
        self.next_home = (self.next_home + 1) % self.slots.len();
    }

    fn remove(&mut self, vcpu: VcpuId) {
        let home = self.vcpu(vcpu).home;
        if self.queues.contains(vcpu) {
            self.queues.remove(vcpu);
        } else if self.slots[home.index()].current == Some(vcpu) {
            self.vacate(home);
        }
        self.vcpus[vcpu.index()] = None;
    }

    fn wake(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        let v = self.vcpu_mut(vcpu);
        let home = v.home;
        if let Some(asleep) = v.asleep.take() {
            v.earn(now.since(asleep));
            v.woken = Some(now);
        }
        if let Some(slot) = self.idle.nearest(Some(home), &self.topology) {
            self.occupy(slot, vcpu, now);
            return Placement::Run(slot);
        }
        let victim = self.victim(vcpu);
        let slot = victim.unwrap_or(home);
        let v = self.vcpu_mut(vcpu);
        v.home = slot;
        let place = Place::Active(v.rank());
        self.queues.push_back(slot, vcpu, place);
        // Leases always have an end here, so every slot asks by itself.
        victim.map_or(Placement::Queue(None), Placement::Preempt)
    }

    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        self.balance(slot, now);
        let Some(current) = self.slots[slot.index()].current else { return self.pick(slot, now) };
        if why == Why::Free {
            // Placed here while the slot was idle: its time starts now.
            return self.install(slot, current, now);
        }
        let slice_over = self.charge(slot, current, now);
        match why {
            Why::Check | Why::Exit | Why::Free => self.check(slot, current, slice_over, now),
            Why::Yield(_) => self.yields(slot, current, now),
            Why::Block => {
                self.vcpu_mut(current).asleep = Some(now);
                self.pick(slot, now)
            }
            Why::Retire => {
                self.vcpus[current.index()] = None;
                self.pick(slot, now)
            }
        }
    }

    fn taken(&mut self, slot: Slot, time: Nanos) {
        let s = &mut self.slots[slot.index()];
        s.charged = s.charged + time;
    }

    fn steals(&mut self, slot: Slot, thief: VcpuId, now: Time) -> bool {
        let Some(robbed) = self.slots[slot.index()].current else { return false };
        let (rank, other) = (self.vcpu(thief).rank(), self.vcpu(robbed).rank());
        // Only a vCPU that has just been woken is sure to stand in the active array.
        let woken = self.vcpu(thief).woken.is_some() && self.queues.contains(thief);
        if !woken || rank == Rank::Rt || other == Rank::Rt || rank > other {
            return false;
        }
        self.queues.remove(thief);
        self.queues.push_front(slot, robbed, other);
        self.occupy(slot, thief, now);
        true
    }

    fn waiting(&self) -> usize {
        self.queues.len()
    }
}
