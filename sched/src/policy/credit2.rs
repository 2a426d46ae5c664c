//! Credit2: the default scheduler of Xen, by George Dunlap and Dario Faggioli, as a policy for vCPUs.
//!
//! A vCPU burns credit while it runs, the faster the lower its weight is. The slots behind one last-level cache share a
//! run queue, in which the vCPU with the most credit is next. Credit is also what a woken vCPU preempts with: a vCPU
//! that slept has kept its credit, while those that computed have burned theirs.
//!
//! The rules and constants are those of Xen's xen/common/sched/credit2.c (Xen 4.15 and later) and of the page "Credit2
//! Scheduler" of the Xen wiki. The code is our own. Rules:
//! 1. *Weight.* 256 at nice 0, and twice as much for every three steps of nice below it, about the kernel's quarter a
//!    step (Xen's weights are set by hand). The heaviest vCPU of a run queue burns a credit each nanosecond, one of
//!    half its weight two.
//! 2. *Reset.* When neither the vCPU about to run nor the first of the run queue has credit above zero, all vCPUs of
//!    the run queue get 10 ms more, also those that sleep. No vCPU has more than 10.5 ms after it: of the credit
//!    before, 0.5 ms is carried over at most. A debt is carried over, up to 10 ms. So a light vCPU gets more than its
//!    weight on a host that takes pCPUs away for milliseconds: what that costs it in credit is more than it can owe.
//! 3. *Slice.* A vCPU runs until its credit is down to that of the first in the run queue, or to zero if that one has
//!    none. The least is 0.5 ms, and 1 ms from the vCPU's start; the most is 10 ms. As in Xen, a vCPU that is displaced
//!    now does not count as queued yet: where two vCPUs share one slot, slices are long.
//! 4. *Rate limit.* A vCPU that has run for less than 1 ms is not preempted. A vCPU that wakes meanwhile waits for the
//!    end of the slice.
//! 5. *Wake.* A woken vCPU takes the slot it last ran on if that idles, else the next idle one of its run queue. If
//!    none idles, it preempts the vCPU on the slot it last ran on if it has more credit than that. Else it preempts the
//!    vCPU of the run queue that it exceeds by most, by more than the migration resistance. A displaced vCPU looks for
//!    a slot to preempt in the same way.
//! 6. *Migration resistance.* A slot takes a queued vCPU that last ran on another slot only if that has 0.5 ms more
//!    credit than the vCPU on the slot. Else it looks at the first queued vCPU that last ran here. A vCPU that changes
//!    slots gets 0.05 ms of credit.
//! 7. *Yield.* The first queued vCPU that rule 6 lets through runs, though it has less credit, and whether or not the
//!    rate limit has passed. The yielder keeps its credit, so it is soon back. What it waits for does not matter.
//! 8. *Balance.* A load is the number of vCPUs that could run, averaged over a second. At a reset the run queue
//!    compares its load with the load that differs most. If the difference is an eighth of a vCPU or more, or a whole
//!    one while there are fewer vCPUs than slots, the run queue pushes a vCPU, pulls one, or swaps two, whichever
//!    leaves the least difference. Loads are not divided by the number of slots. A new vCPU goes to the run queue of
//!    the least load.
//!
//! What differs, and why:
//! * Work conservation across run queues, which every policy here keeps: a woken vCPU that finds no idle slot in its
//!   own run queue takes one of another, and a slot that runs out of work takes the first one of another run queue. Xen
//!   waits for the next balance.
//! * Bounded work in each decision: balancing looks at the next eight run queues, and there at the first queued vCPU of
//!   each slot; Xen looks at all vCPUs, also those that run. As in Xen a run queue has 16 slots at most.
//! * A slot takes the first of its run queue even if it has been queued for another slot, which was told and has not
//!   asked yet: Xen leaves it there.
//! * An idle slot beside a busy thread of its core is as good as any idle slot: Xen prefers idle cores.
//! * Classes, which Xen has not: rt is a FIFO above all credit, without slices; batch preempts only idle; idle runs in
//!   turns of 10 ms while no other class waits. The rate limit protects no class from a better one, and rt and idle are
//!   not held to their run queue.
//! * Caps are carried by [`Capped`](super::Capped) around it.
//!
//! No bound of waits is promised: vCPUs that sleep go ahead of one without credit, however many there are.
//!
//! A vCPU steals a slot only from one that has no more credit.
//!
//! Invariant: while a slot is idle, no vCPU is queued anywhere.

mod balance;
mod credit;
mod heaps;
mod load;
mod queues;
mod runqueue;
#[cfg(test)]
mod tests;
mod tickle;
mod vcpu;

use super::slotset::SlotSet;
use super::{Decision, Placement, Policy, Why};
use crate::attributes::{Attributes, Class};
use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};
use crate::topology::Topology;
pub use credit::weight;
use credit::{Credit, LEAST, MOST, Rate};
use heaps::{Heaps, RANKS, Rank};
use runqueue::{RunQueue, arrange};
use vcpu::VcpuState;

/// The longest lease. Xen: CSCHED2_MAX_TIMER.
pub(crate) const LONGEST_LEASE: Nanos = Nanos::from_millis(10);
/// The shortest one. Xen: CSCHED2_MIN_TIMER.
const SHORTEST_LEASE: Nanos = Nanos::from_micros(500);
/// For how long a vCPU runs before it may be preempted. Xen: sched_ratelimit_us.
const RATE_LIMIT: Nanos = Nanos::from_millis(1);
/// How much more credit makes a vCPU change slots. Xen: sched_credit2_migrate_resist.
const RESISTANCE: Credit = 500_000;
/// What a change of slots is worth. Xen: CSCHED2_MIGRATE_COMPENSATION.
const COMPENSATION: Credit = 50_000;
/// Run queues that are looked at for work or balance, so that this takes bounded time.
const LOOK: usize = 8;

#[derive(Debug, Clone)]
struct SlotState {
    /// Its run queue.
    queue: usize,
    current: Option<VcpuId>,
    /// The vCPU was placed here, and the slot has not asked yet.
    placed: bool,
    /// The vCPU runs since then.
    since: Time,
    /// Charged up to here.
    charged: Time,
}

/// The policy.
#[derive(Debug)]
pub struct Credit2 {
    vcpus: Vec<Option<VcpuState>>,
    slots: Vec<SlotState>,
    queues: Vec<RunQueue>,
    heaps: Heaps,
    /// Run queues where vCPUs wait, by rank.
    waiting: [SlotSet; RANKS],
    idle: SlotSet,
    /// Slots that run a vCPU of class idle.
    idling: SlotSet,
    /// Slots that run a vCPU of another class than rt.
    below_rt: SlotSet,
    /// How often a vCPU was queued.
    queued: u64,
}

/// Setting up, and finding things.
impl Credit2 {
    /// A policy for this many slots, all idle and behind one cache.
    pub fn new(slots: usize) -> Self {
        Self::arranged(slots, &Topology::default())
    }

    /// This policy on slots that share caches in this way.
    pub fn with_topology(self, topology: &Topology) -> Self {
        Self::arranged(self.slots.len(), topology)
    }

    fn arranged(slots: usize, topology: &Topology) -> Self {
        let queues = arrange(slots, topology);
        let slot = SlotState { queue: 0, current: None, placed: false, since: Time(0), charged: Time(0) };
        let mut states = vec![slot; slots];
        for (number, queue) in queues.iter().enumerate() {
            queue.slots.iter().for_each(|slot| states[slot.index()].queue = number);
        }
        let mut idle = SlotSet::new(slots);
        (0..slots).for_each(|slot| idle.insert(Slot(slot as u16)));
        Self {
            vcpus: Vec::new(),
            slots: states,
            heaps: Heaps::new(slots),
            waiting: [(); RANKS].map(|()| SlotSet::new(queues.len())),
            queues,
            idle,
            idling: SlotSet::new(slots),
            below_rt: SlotSet::new(slots),
            queued: 0,
        }
    }

    fn vcpu(&self, vcpu: VcpuId) -> &VcpuState {
        self.vcpus[vcpu.index()].as_ref().expect("the driver names only vCPUs it added")
    }

    fn vcpu_mut(&mut self, vcpu: VcpuId) -> &mut VcpuState {
        self.vcpus[vcpu.index()].as_mut().expect("the driver names only vCPUs it added")
    }

    fn credit(&self, vcpu: VcpuId) -> Credit {
        let v = self.vcpu(vcpu);
        (v.account + self.queues[v.queue].added).min(MOST)
    }

    fn set_credit(&mut self, vcpu: VcpuId, credit: Credit) {
        let added = self.queues[self.vcpu(vcpu).queue].added;
        self.vcpu_mut(vcpu).account = credit.clamp(LEAST, MOST) - added;
    }

    fn rate(&self, vcpu: VcpuId) -> Rate {
        let v = self.vcpu(vcpu);
        Rate { weight: weight(v.nice), heaviest: self.queues[v.queue].weights.heaviest() }
    }
}

/// Slots.
impl Credit2 {
    /// The slot is this vCPU's from now on.
    fn occupy(&mut self, slot: Slot, vcpu: VcpuId, placed: bool, now: Time) {
        let queue = self.slots[slot.index()].queue;
        if self.vcpu(vcpu).queue != queue {
            self.migrate(vcpu, queue, now);
        }
        if self.vcpu(vcpu).home != slot {
            self.set_credit(vcpu, self.credit(vcpu) + COMPENSATION);
            self.vcpu_mut(vcpu).home = slot;
        }
        self.slots[slot.index()] = SlotState { queue, current: Some(vcpu), placed, since: now, charged: now };
        self.idle.remove(slot);
        // A vCPU that is only placed is not preempted.
        let class = Some(self.vcpu(vcpu).class).filter(|_| !placed);
        set(&mut self.idling, slot, class == Some(Class::Idle));
        set(&mut self.below_rt, slot, class.is_some_and(|class| class != Class::Rt));
    }

    /// The slot is idle from now on.
    fn vacate(&mut self, slot: Slot) {
        let s = &mut self.slots[slot.index()];
        (s.current, s.placed) = (None, false);
        self.idle.insert(slot);
        self.idling.remove(slot);
        self.below_rt.remove(slot);
    }

    /// Charges the vCPU on a slot for what it ran.
    fn charge(&mut self, slot: Slot, now: Time) {
        let s = &mut self.slots[slot.index()];
        let Some(current) = s.current.filter(|_| !s.placed) else { return };
        let ran = now.since(s.charged);
        s.charged = s.charged.max(now);
        if self.vcpu(current).rank() == Rank::Credit {
            let (burned, rest) = self.rate(current).burn(ran, self.vcpu(current).rest);
            self.vcpu_mut(current).rest = rest;
            self.set_credit(current, self.credit(current).saturating_sub(burned));
        }
    }

    /// All vCPUs of the run queue get credit, so that this one has some.
    fn reset(&mut self, queue: usize, vcpu: VcpuId, now: Time) {
        // What they ran before is burned before what they have is cut.
        for at in 0..self.queues[queue].slots.len() {
            self.charge(self.queues[queue].slots[at], now);
        }
        let times = if self.credit(vcpu) == LEAST { 2 } else { 1 };
        self.queues[queue].reset(times);
    }

    /// The vCPU on the slot runs, or runs on.
    fn dispatch(&mut self, slot: Slot, vcpu: VcpuId, now: Time) -> Decision {
        let queue = self.slots[slot.index()].queue;
        let queued = self.head_of(queue, Rank::Credit).map_or(LEAST, |head| self.credit(head));
        let mut kick = None;
        if self.vcpu(vcpu).rank() == Rank::Credit && self.credit(vcpu).max(queued) <= 0 {
            self.reset(queue, vcpu, now);
            kick = self.balance(queue, now);
        }
        let until = now + self.slice(slot, vcpu, now);
        Decision { kick, ..Decision::run(vcpu, until) }
    }

    /// For how long the vCPU on the slot may run from now on.
    fn slice(&self, slot: Slot, vcpu: VcpuId, now: Time) -> Nanos {
        let (s, rank) = (&self.slots[slot.index()], self.vcpu(vcpu).rank());
        if self.better_waits(rank) {
            return SHORTEST_LEASE;
        }
        if rank != Rank::Credit {
            return LONGEST_LEASE;
        }
        let queued = self.head_of(s.queue, Rank::Credit).map_or(0, |head| self.credit(head).max(0));
        let least = SHORTEST_LEASE.max(RATE_LIMIT - now.since(s.since));
        self.rate(vcpu).time(self.credit(vcpu) - queued).clamp(least, LONGEST_LEASE)
    }

    /// Gives a slot to a queued vCPU.
    fn take(&mut self, slot: Slot, vcpu: VcpuId, now: Time) -> Decision {
        self.dequeue(vcpu);
        self.occupy(slot, vcpu, false, now);
        self.dispatch(slot, vcpu, now)
    }

    /// The slot has no vCPU: the next one gets it.
    fn pick(&mut self, slot: Slot, now: Time) -> Decision {
        if let Some(next) = self.next_for(self.slots[slot.index()].queue) {
            return self.take(slot, next, now);
        }
        self.vacate(slot);
        Decision::IDLE
    }

    /// The vCPU on the slot could run on, and does unless another one may have the slot.
    fn check(&mut self, slot: Slot, current: VcpuId, yields: bool, now: Time) -> Decision {
        let (queue, rank) = (self.slots[slot.index()].queue, self.vcpu(current).rank());
        let ran = now.since(self.slots[slot.index()].since);
        let next = match rank {
            _ if self.better_waits(rank) => self.next_for(queue),
            Rank::Credit if yields || ran >= RATE_LIMIT => self.candidate(slot, current, yields),
            Rank::Rt if yields => self.head_of(queue, rank),
            Rank::Idle if yields || ran >= LONGEST_LEASE => self.head_of(queue, rank),
            _ => None,
        };
        let Some(next) = next else { return self.dispatch(slot, current, now) };
        let decision = self.take(slot, next, now);
        self.enqueue(current);
        Decision { kick: self.victim(current, now).or(decision.kick), ..decision }
    }

    /// A vCPU cannot run any more.
    fn rests(&mut self, vcpu: VcpuId, now: Time) {
        let v = self.vcpu_mut(vcpu);
        v.load.end(now);
        let queue = v.queue;
        self.queues[queue].load.end(now);
    }

    /// A vCPU that cannot run is forgotten.
    fn forget(&mut self, vcpu: VcpuId) {
        let Some(v) = self.vcpus[vcpu.index()].take() else { return };
        let queue = &mut self.queues[v.queue];
        queue.load.leave(v.load.average());
        if v.rank() == Rank::Credit {
            queue.weights.remove(v.nice);
        }
    }
}

fn set(slots: &mut SlotSet, slot: Slot, has: bool) {
    if has { slots.insert(slot) } else { slots.remove(slot) }
}

impl Policy for Credit2 {
    fn add(&mut self, vcpu: VcpuId, attributes: Attributes, now: Time) {
        self.heaps.admit(vcpu);
        if self.vcpus.len() <= vcpu.index() {
            self.vcpus.resize(vcpu.index() + 1, None);
        }
        let loads = self.queues.iter().map(|queue| queue.load.average());
        let least = loads.enumerate().min_by_key(|&(_, load)| load).map_or(0, |(queue, _)| queue);
        let queue = &mut self.queues[least];
        let v = VcpuState::new(attributes, least, queue.home(), queue.added, now);
        queue.load.join(v.load.average());
        if v.rank() == Rank::Credit {
            queue.weights.add(v.nice);
        }
        self.vcpus[vcpu.index()] = Some(v);
    }

    fn remove(&mut self, vcpu: VcpuId) {
        let v = self.vcpu(vcpu);
        let (home, runnable, last) = (v.home, v.load.runnable() > 0, self.queues[v.queue].load.at());
        if self.heaps.contains(vcpu) {
            self.dequeue(vcpu);
        } else if self.slots[home.index()].current == Some(vcpu) {
            self.vacate(home);
        }
        if runnable {
            self.rests(vcpu, last);
        }
        self.forget(vcpu);
    }

    fn wake(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        let v = self.vcpu_mut(vcpu);
        v.load.begin(now);
        let queue = v.queue;
        self.queues[queue].load.begin(now);
        if let Some(slot) = self.idle_for(vcpu) {
            self.occupy(slot, vcpu, true, now);
            return Placement::Run(slot);
        }
        self.enqueue(vcpu);
        // Leases always have an end here, so every slot asks by itself.
        self.victim(vcpu, now).map_or(Placement::Queue(None), Placement::Preempt)
    }

    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        let Some(current) = self.slots[slot.index()].current else { return self.pick(slot, now) };
        if why == Why::Free {
            // Placed here while the slot was idle: its time starts now.
            self.occupy(slot, current, false, now);
            return self.dispatch(slot, current, now);
        }
        self.charge(slot, now);
        match why {
            Why::Check | Why::Exit | Why::Free => self.check(slot, current, false, now),
            Why::Yield(_) => self.check(slot, current, true, now),
            Why::Block | Why::Retire => {
                self.rests(current, now);
                self.slots[slot.index()].current = None;
                if why == Why::Retire {
                    self.forget(current);
                }
                self.pick(slot, now)
            }
        }
    }

    fn taken(&mut self, slot: Slot, time: Nanos) {
        let s = &mut self.slots[slot.index()];
        (s.since, s.charged) = (s.since + time, s.charged + time);
    }

    fn steals(&mut self, slot: Slot, thief: VcpuId, now: Time) -> bool {
        let Some(robbed) = self.slots[slot.index()].current else { return false };
        let by_credit = [thief, robbed].iter().all(|&vcpu| self.vcpu(vcpu).rank() == Rank::Credit);
        if !by_credit || !self.heaps.contains(thief) || self.credit(thief) < self.credit(robbed) {
            return false;
        }
        self.dequeue(thief);
        self.enqueue(robbed);
        self.occupy(slot, thief, true, now);
        true
    }

    fn waiting(&self) -> usize {
        self.heaps.len()
    }
}
