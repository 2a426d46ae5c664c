//! Goodness: Linux 2.4's scheduler as a policy for vCPUs, with two yield bugs that can be switched back on.
//!
//! All runnable vCPUs stand in one list for all slots, and every pass of the scheduler walks it. The vCPU with the
//! highest sum of counter and priority runs next, with an advantage on the slot it last ran on. When all counters are
//! used up, the counters of all vCPUs are refilled. Sleepers' counters are refilled too, so they save up to twice as
//! much. The walks, O(vCPUs) per pass and per refill, are part of the record and the reason why there was an O(1)
//! scheduler.
//!
//! In 2.4.0-test8 two things were wrong with sched_yield, found with a statistics patch under VolanoMark, whose
//! throughput rose by half on 4 CPUs and by 72 % on 8 when both were fixed in test9. [`YieldBugs`] brings back either,
//! and [`Policy::yield_counts`] has the figures that gave them away:
//! 1. A yielder counted as a vCPU whose counter is used up. So the yield of the only runnable vCPU refilled the
//!    counters of all.
//! 2. The vCPU that replaced a yielder found it waiting, better than itself, and was at once made to ask again: the
//!    yield was taken back, for an extra pass.
//!
//! Fixed, a yielder comes behind all vCPUs that can run, even those whose counter is used up, until it has been
//! replaced. It causes no refill by itself. No slot is made to ask again for its sake. It changes nothing while no vCPU
//! waits.
//!
//! What differs from 2.4: counters are in nanoseconds instead of ticks of 10 ms, and an rt vCPU that yields does let
//! the next one of its class run. Class batch never preempts, idle comes behind all others.

use super::contract::Policy;
use super::decision::{Decision, Placement, Why};
use super::slotset::SlotSet;
use super::yield_counts::YieldCounts;
use crate::attributes::{Attributes, Class};
use crate::ids::{Nice, Slot, VcpuId};
use crate::time::{Nanos, Time};
use std::collections::VecDeque;

/// A tick of 2.4 on x86: what a step of priority is worth.
const TICK: Nanos = Nanos::from_millis(10);
/// The most a counter can hold: twice the refill of nice -20, 11 ticks.
pub(crate) const LONGEST_LEASE: Nanos = Nanos(2 * 11 * TICK.0);
/// What having run on a slot last is worth there (unit: ticks). Linux: PROC_CHANGE_PENALTY.
const SAME_SLOT: i64 = 15;
/// Worth of a yielder: below one whose counter is used up, which is worth 0.
const YIELDER: i64 = -1;
/// Worth of class idle.
const IDLE: i64 = -2;
/// Worth of class rt, above all counters and priorities.
const RT: i64 = 1_000 * TICK.0 as i64;

/// CPU time that a round is worth: 6 ticks at nice 0, 11 at -20, 1 at 19. Linux: NICE_TO_TICKS.
pub fn refill(nice: Nice) -> Nanos {
    Nanos((20 - i64::from(nice.get())) as u64 / 4 * TICK.0) + TICK
}

/// Two bugs of Linux 2.4.0-test8 that `algorithm = "goodness"` can have back, for the record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(rename = "GoodnessSwitches", default, deny_unknown_fields)
)]
pub struct YieldBugs {
    /// The yield of the only runnable vCPU refills the counters of all vCPUs.
    pub yield_recalculates: bool,
    /// A vCPU that replaces a yielder with a better counter is preempted at once, and the yielder runs again.
    pub yield_bounces: bool,
}

#[derive(Debug, Clone)]
struct VcpuState {
    nice: Nice,
    class: Class,
    /// CPU time left of this round.
    counter: Nanos,
    last: Option<Slot>,
}

#[derive(Debug, Clone)]
struct SlotState {
    current: Option<VcpuId>,
    /// Charged up to here.
    charged: Time,
    /// A pass is due before the lease ends.
    resched: bool,
}

/// The policy.
#[derive(Debug)]
pub struct Goodness {
    bugs: YieldBugs,
    vcpus: Vec<Option<VcpuState>>,
    slots: Vec<SlotState>,
    queue: VecDeque<VcpuId>,
    idle: SlotSet,
    counts: YieldCounts,
}

impl Goodness {
    /// A policy for this many slots, all idle.
    pub fn new(bugs: YieldBugs, slots: usize) -> Self {
        let mut idle = SlotSet::new(slots);
        (0..slots).for_each(|slot| idle.insert(Slot(slot as u16)));
        let slots = vec![SlotState { current: None, charged: Time(0), resched: false }; slots];
        let (vcpus, queue) = (Vec::new(), VecDeque::new());
        Self { bugs, vcpus, slots, queue, idle, counts: YieldCounts::default() }
    }

    fn vcpu(&self, vcpu: VcpuId) -> &VcpuState {
        self.vcpus[vcpu.index()].as_ref().expect("the driver names only vCPUs it added")
    }

    fn vcpu_mut(&mut self, vcpu: VcpuId) -> &mut VcpuState {
        self.vcpus[vcpu.index()].as_mut().expect("the driver names only vCPUs it added")
    }

    /// Charges the vCPU on a slot for what it ran; true if its counter is used up.
    fn charge(&mut self, slot: Slot, current: VcpuId, now: Time) -> bool {
        let s = &mut self.slots[slot.index()];
        let ran = now.since(s.charged);
        s.charged = now;
        let v = self.vcpu_mut(current);
        match v.class {
            Class::Rt => return false,
            Class::Idle if v.counter <= ran => v.counter = refill(v.nice),
            _ => {
                v.counter = v.counter.saturating_sub(ran);
                return v.counter == Nanos::ZERO;
            }
        }
        true
    }

    /// How good it would be to run a vCPU on a slot.
    fn goodness(&self, vcpu: VcpuId, slot: Slot, now: Time) -> i64 {
        let v = self.vcpu(vcpu);
        let s = &self.slots[slot.index()];
        let unpaid = if s.current == Some(vcpu) { now.since(s.charged) } else { Nanos::ZERO };
        match v.class {
            Class::Rt => RT,
            Class::Idle => IDLE,
            _ => match v.counter.saturating_sub(unpaid) {
                Nanos::ZERO => 0,
                left => {
                    let here = if v.last == Some(slot) { SAME_SLOT } else { 0 };
                    left.0 as i64 + (20 - i64::from(v.nice.get()) + here) * TICK.0 as i64
                }
            },
        }
    }

    /// A pass of the scheduler: the best of the list gets the slot, the first of equals.
    fn pass(&mut self, slot: Slot, mut yielder: Option<VcpuId>, now: Time) -> Decision {
        self.slots[slot.index()].resched = false;
        let as_yielder = if self.bugs.yield_recalculates { 0 } else { YIELDER };
        loop {
            let mut best: Option<(i64, usize)> = None;
            for (at, &vcpu) in self.queue.iter().enumerate() {
                let goodness = if yielder == Some(vcpu) { as_yielder } else { self.goodness(vcpu, slot, now) };
                if best.is_none_or(|(other, _)| goodness > other) {
                    best = Some((goodness, at));
                }
            }
            let Some((goodness, at)) = best else { return self.vacate(slot) };
            if goodness != 0 && self.vcpu(self.queue[at]).has_time() {
                let next = self.queue.remove(at).expect("found just now");
                return self.install(slot, next, now);
            }
            self.recalculate();
            if self.bugs.yield_recalculates {
                // Being a yielder counted once.
                yielder = None;
            }
        }
    }

    /// The counters of all vCPUs are refilled, and half of what was left is kept.
    fn recalculate(&mut self) {
        self.counts.recalculations += 1;
        self.vcpus.iter_mut().flatten().for_each(|v| v.counter = Nanos(v.counter.0 / 2) + refill(v.nice));
    }

    fn install(&mut self, slot: Slot, vcpu: VcpuId, now: Time) -> Decision {
        let s = &mut self.slots[slot.index()];
        (s.current, s.charged) = (Some(vcpu), now);
        self.vcpu_mut(vcpu).last = Some(slot);
        self.go_on(slot, vcpu)
    }

    fn go_on(&self, slot: Slot, vcpu: VcpuId) -> Decision {
        let v = self.vcpu(vcpu);
        let span = if v.class == Class::Rt { LONGEST_LEASE } else { v.counter };
        Decision::run(vcpu, self.slots[slot.index()].charged + span)
    }

    fn vacate(&mut self, slot: Slot) -> Decision {
        self.slots[slot.index()].current = None;
        self.idle.insert(slot);
        Decision::IDLE
    }

    fn check(&mut self, slot: Slot, current: VcpuId, used_up: bool, now: Time) -> Decision {
        if used_up {
            self.queue.push_back(current);
        } else if self.slots[slot.index()].resched {
            // First of the list, so that it goes on unless another is better.
            self.queue.push_front(current);
        } else {
            return self.go_on(slot, current);
        }
        self.pass(slot, None, now)
    }

    fn yields(&mut self, slot: Slot, current: VcpuId, now: Time) -> Decision {
        self.counts.yields += 1;
        if self.queue.is_empty() {
            self.counts.sole += 1;
            if !self.bugs.yield_recalculates && self.vcpu(current).has_time() {
                return self.go_on(slot, current);
            }
        }
        self.queue.push_back(current);
        let shares = matches!(self.vcpu(current).class, Class::Normal | Class::Batch);
        let mut decision = self.pass(slot, shares.then_some(current), now);
        if self.bugs.yield_bounces
            && let Some(next) = decision.run.map(|lease| lease.vcpu).filter(|&next| next != current)
            && self.goodness(current, slot, now) > self.goodness(next, slot, now)
        {
            self.slots[slot.index()].resched = true;
            self.counts.extra_passes += 1;
            decision.kick = Some(slot);
        }
        decision
    }

    /// The slot on which a woken vCPU is better by most than the one that runs there.
    fn victim(&self, vcpu: VcpuId, now: Time) -> Option<Slot> {
        let gain = |slot: Slot| {
            let current = self.slots[slot.index()].current?;
            let gain = self.goodness(vcpu, slot, now) - self.goodness(current, slot, now);
            let may = self.vcpu(vcpu).class != Class::Batch || self.vcpu(current).class == Class::Idle;
            (may && gain > 0).then_some((gain, slot))
        };
        (0..self.slots.len()).filter_map(|slot| gain(Slot(slot as u16))).max().map(|(_, slot)| slot)
    }
}

impl VcpuState {
    fn has_time(&self) -> bool {
        self.counter > Nanos::ZERO || self.class == Class::Rt
    }
}

impl Policy for Goodness {
    fn add(&mut self, vcpu: VcpuId, attributes: Attributes, _now: Time) {
        if self.vcpus.len() <= vcpu.index() {
            self.vcpus.resize(vcpu.index() + 1, None);
        }
        let Attributes { nice, class, .. } = attributes;
        self.vcpus[vcpu.index()] = Some(VcpuState { nice, class, counter: refill(nice), last: None });
        // All of them may queue at once.
        self.queue.reserve(self.vcpus.len() - self.queue.len());
    }

    fn remove(&mut self, vcpu: VcpuId) {
        self.queue.retain(|&queued| queued != vcpu);
        if let Some(slot) = self.slots.iter().position(|s| s.current == Some(vcpu)) {
            let _ = self.vacate(Slot(slot as u16));
        }
        self.vcpus[vcpu.index()] = None;
    }

    fn wake(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        let known = self.vcpu(vcpu).last.filter(|&slot| self.idle.contains(slot));
        if let Some(slot) = known.or_else(|| self.idle.first()) {
            self.idle.remove(slot);
            let s = &mut self.slots[slot.index()];
            (s.current, s.charged) = (Some(vcpu), now);
            return Placement::Run(slot);
        }
        self.queue.push_front(vcpu);
        let Some(slot) = self.victim(vcpu, now) else {
            // Leases always have an end here, so every slot asks by itself.
            return Placement::Queue(None);
        };
        self.slots[slot.index()].resched = true;
        Placement::Preempt(slot)
    }

    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        let Some(current) = self.slots[slot.index()].current else {
            self.idle.remove(slot);
            return self.pass(slot, None, now);
        };
        if why == Why::Free {
            // Placed here while the slot was idle: its time starts now. If it has none, then no other vCPU for which
            // this slot was free had any.
            if !self.vcpu(current).has_time() {
                self.recalculate();
            }
            return self.install(slot, current, now);
        }
        let used_up = self.charge(slot, current, now);
        match why {
            Why::Check | Why::Exit | Why::Free => self.check(slot, current, used_up, now),
            Why::Yield(_) => self.yields(slot, current, now),
            Why::Block => self.pass(slot, None, now),
            Why::Retire => {
                self.vcpus[current.index()] = None;
                self.pass(slot, None, now)
            }
        }
    }

    fn taken(&mut self, slot: Slot, time: Nanos) {
        let s = &mut self.slots[slot.index()];
        s.charged = s.charged + time;
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn yield_counts(&self) -> Option<YieldCounts> {
        Some(self.counts)
    }

    fn is_told_of_lone_yields(&self) -> bool {
        self.bugs.yield_recalculates
    }
}
