//! A model of the stock host scheduler, for simulations that compare with it: Linux's fair class as of 6.18.
//!
//! After the kernel's `kernel/sched/fair.c` and `kernel/sched/syscalls.c`, rule by rule; no line of it is here.
//! * *Queues.* One for each pCPU. A thread has a virtual time that grows as it runs, by its weight, and a virtual
//!   deadline a slice later. It is eligible while it has not run more than its share: its virtual time is not after the
//!   weighted mean of its queue (`entity_eligible`). Of the eligible the earliest deadline runs (`pick_eevdf`).
//! * *Turns.* The running thread is left alone until its deadline (`protect_slice`, RUN_TO_PARITY). That is noticed at
//!   a tick, or as another thread is queued beside it (`update_curr`).
//! * *Sleep.* The lag, what a thread was owed, is kept and given back (`place_entity`); what it owed melts away as the
//!   others run meanwhile (DELAY_DEQUEUE).
//! * *Yield.* A lone thread's changes nothing. Else, if it is eligible, it gives up the rest of its slice: its virtual
//!   time becomes its deadline, and that goes a slice further (`yield_task_fair`).
//! * *Places.* A woken thread goes to its last pCPU if that is idle, else to an idle one behind the same cache, else
//!   into its last one's queue (`select_idle_sibling`); a new one to the least loaded (`sched_balance_find_dst_cpu`). A
//!   pCPU that becomes idle pulls from another (`sched_balance_newidle`), and now and then each looks for a longer
//!   queue (`sched_balance_rq`).
//!
//! Left out: wake-ups that pull a thread to its waker's pCPU (`wake_affine`, since a policy is not told which vCPU
//! wakes another), loads that decay, cache hotness, groups, and the classes but for the weight of SCHED_IDLE. It
//! allocates as its queues grow, unlike the policies that run real guests.

mod queue;
#[cfg(test)]
mod tests;

use super::draw::Draw;
use crate::attributes::{Attributes, Class};
use crate::ids::{Nice, Slot, VcpuId};
use crate::policy::slotset::SlotSet;
use crate::policy::{Decision, Placement, Policy, Why};
use crate::time::{Nanos, Time};
use crate::topology::Topology;
use queue::{Entity, RunQueue};

/// The kernel's base slice for one pCPU; it grows with the logarithm of their number, up to 8
/// (`sysctl_sched_base_slice`, `get_update_sysctl_factor`).
const BASE_SLICE: Nanos = Nanos(700_000);
/// A pCPU that is busy looks for longer queues once in so many milliseconds for each pCPU (`busy_factor`).
const BUSY_FACTOR: u64 = 16;

/// What can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostConfig {
    /// Whether a yield is sched_yield, or nothing.
    pub yields: bool,
    /// From one tick to the next: 4 ms where CONFIG_HZ is 250.
    pub tick: Nanos,
    /// How late a tick's interrupt may come.
    pub late: Nanos,
    /// Which of equally good pCPUs a new thread goes to: on a real host that hangs on what else runs there.
    pub seed: u64,
}

impl Default for HostConfig {
    fn default() -> Self {
        Self { yields: true, tick: Nanos::from_millis(4), late: Nanos::from_micros(20), seed: 0 }
    }
}

/// The model.
#[derive(Debug)]
pub struct HostModel {
    config: HostConfig,
    slice: Nanos,
    topology: Topology,
    entities: Vec<Option<Entity>>,
    queues: Vec<RunQueue>,
    idle: SlotSet,
    /// Slots in whose queues a thread waits.
    crowded: SlotSet,
    waiting: usize,
    draw: Draw,
}

impl HostModel {
    /// A model for this many pCPUs.
    pub fn new(config: HostConfig, slots: usize) -> Self {
        let mut idle = SlotSet::new(slots);
        (0..slots).for_each(|slot| idle.insert(Slot(slot as u16)));
        let factor = 1 + u64::from(slots.clamp(1, 8).ilog2());
        Self {
            config,
            slice: Nanos(BASE_SLICE.0 * factor),
            topology: Topology::default(),
            entities: Vec::new(),
            queues: (0..slots).map(|_| RunQueue::default()).collect(),
            idle,
            crowded: SlotSet::new(slots),
            waiting: 0,
            draw: Draw::new(config.seed),
        }
    }

    /// This model on pCPUs that are this near to each other.
    pub fn with_topology(self, topology: Topology) -> Self {
        Self { topology, ..self }
    }

    fn entity(&mut self, vcpu: VcpuId) -> &mut Entity {
        self.entities[vcpu.index()].as_mut().expect("the driver names only vCPUs it added")
    }

    /// What a thread can be owed, or owe, at most (`update_entity_lag`).
    fn most_lag(&self) -> Nanos {
        Nanos(2 * self.slice.0).max(self.config.tick)
    }

    /// Brings a queue's running thread up to date.
    fn charge(&mut self, slot: Slot, now: Time) {
        let queue = &mut self.queues[slot.index()];
        let ran = now.since(queue.charged);
        queue.charged = now;
        if let Some(current) = queue.current {
            let entity = self.entities[current.index()].as_mut().expect("the running thread is known");
            queue.runs(entity, ran);
        }
    }

    /// Puts a thread into a queue, behind no thread in particular.
    fn enqueue(&mut self, slot: Slot, vcpu: VcpuId) {
        let entity = self.entities[vcpu.index()].as_mut().expect("the driver names only vCPUs it added");
        let queue = &mut self.queues[slot.index()];
        queue.place(entity, self.slice);
        queue.wait(vcpu, entity);
        entity.home = Some(slot);
        self.crowded.insert(slot);
        self.waiting += 1;
    }

    /// Takes a waiting thread out of its queue; it keeps what it is owed.
    fn dequeue(&mut self, slot: Slot, vcpu: VcpuId) {
        let most = self.most_lag();
        let entity = self.entities[vcpu.index()].as_mut().expect("a waiting thread is known");
        let queue = &mut self.queues[slot.index()];
        queue.unwait(vcpu, entity);
        queue.leave(entity, most);
        if queue.waiting() == 0 {
            self.crowded.remove(slot);
        }
        self.waiting -= 1;
    }

    /// The thread that runs there gives way to the best of its queue, which may be itself.
    fn reschedule(&mut self, slot: Slot, now: Time) -> Decision {
        let queue = &mut self.queues[slot.index()];
        let current = queue.current;
        let running =
            current.map(|vcpu| (vcpu, self.entities[vcpu.index()].as_ref().expect("the running thread is known")));
        let best = queue
            .best(running, |vcpu| self.entities[vcpu.index()].as_ref().expect("a waiting thread is known").vruntime);
        if let Some(next) = best.filter(|next| Some(*next) != current) {
            if let Some(vcpu) = current {
                let entity = self.entities[vcpu.index()].as_mut().expect("the running thread is known");
                queue.wait(vcpu, entity);
                self.waiting += 1;
            }
            let entity = self.entities[next.index()].as_mut().expect("a waiting thread is known");
            queue.unwait(next, entity);
            queue.current = Some(next);
            self.waiting -= 1;
            if queue.waiting() == 0 { self.crowded.remove(slot) } else { self.crowded.insert(slot) }
        }
        self.runs_on(slot, now)
    }

    /// The lease of the running thread: until the first tick after its deadline.
    fn runs_on(&mut self, slot: Slot, now: Time) -> Decision {
        let Some(vcpu) = self.queues[slot.index()].current else {
            self.idle.insert(slot);
            return Decision::IDLE;
        };
        let entity = self.entity(vcpu);
        entity.home = Some(slot);
        let left = entity.real((entity.deadline - entity.vruntime).max(1));
        let (tick, late) = (self.config.tick.0, self.draw.below(self.config.late.0 + 1));
        Decision::run(vcpu, Time((now.0 + left).div_ceil(tick) * tick + late))
    }

    /// A slot without work: takes a thread from another's queue, one behind its cache if it can.
    fn pull(&mut self, slot: Slot) {
        let Some(from) = self.crowded.nearest(Some(slot), &self.topology) else { return };
        let Some(vcpu) = self.queues[from.index()].last() else { return };
        self.moves(vcpu, from, slot);
    }

    fn moves(&mut self, vcpu: VcpuId, from: Slot, to: Slot) {
        self.dequeue(from, vcpu);
        self.entity(vcpu).debt_of = None;
        self.enqueue(to, vcpu);
    }

    /// From time to time: half of what a longer queue has more than this one.
    fn balance(&mut self, slot: Slot, now: Time) {
        if now < self.queues[slot.index()].next_balance {
            return;
        }
        let interval = BUSY_FACTOR * self.queues.len() as u64;
        self.queues[slot.index()].next_balance = now + Nanos::from_millis(interval);
        let len = |slot: usize| self.queues[slot].waiting();
        let busiest = (0..self.queues.len()).max_by_key(|&other| (len(other), usize::MAX - other));
        let Some(busiest) = busiest.filter(|&other| len(other) >= len(slot.index()) + 2) else { return };
        for _ in 0..(len(busiest) - len(slot.index())) / 2 {
            let Some(vcpu) = self.queues[busiest].last() else { return };
            self.moves(vcpu, Slot(busiest as u16), slot);
        }
    }

    /// The thread that runs there sleeps or ends.
    fn leaves(&mut self, slot: Slot, vcpu: VcpuId) {
        let most = self.most_lag();
        let queue = &mut self.queues[slot.index()];
        let entity = self.entities[vcpu.index()].as_mut().expect("the running thread is known");
        queue.leave(entity, most);
        entity.debt_of = Some((slot, entity.vruntime));
        queue.current = None;
    }

    /// Where a new thread goes: the kernel goes by loads that rise and decay, with whatever else runs, and leaves
    /// queues alone that differ by one; so of those with at most one more than the shortest any may be taken.
    fn place_for_new(&mut self) -> Slot {
        let load = |slot: usize| self.queues[slot].waiting() + usize::from(self.queues[slot].current.is_some());
        let all = 0..self.queues.len();
        let least = all.clone().map(load).min().unwrap_or(0);
        let mut near = all.filter(|&slot| load(slot) <= least + usize::from(least > 0));
        let nth = self.draw.below(near.clone().count() as u64) as usize;
        Slot(near.nth(nth).unwrap_or(0) as u16)
    }

    /// Where a woken thread goes, and whether that is idle.
    fn place_for(&mut self, vcpu: VcpuId) -> (Slot, bool) {
        let Some(home) = self.entity(vcpu).home else {
            let slot = self.place_for_new();
            return (slot, self.idle.contains(slot));
        };
        if self.idle.contains(home) {
            return (home, true);
        }
        let near = self.idle.nearest(Some(home), &self.topology);
        match near.filter(|&idle| self.topology.share_cache(home, idle)) {
            Some(idle) => (idle, true),
            None => (home, false),
        }
    }
}

impl Policy for HostModel {
    fn add(&mut self, vcpu: VcpuId, attributes: Attributes, _now: Time) {
        if self.entities.len() <= vcpu.index() {
            self.entities.resize(vcpu.index() + 1, None);
        }
        self.entities[vcpu.index()] = Some(Entity::new(weight(attributes)));
    }

    fn remove(&mut self, vcpu: VcpuId) {
        let entity = self.entity(vcpu);
        let (home, waits) = (entity.home, entity.waits);
        match home {
            Some(slot) if waits => self.dequeue(slot, vcpu),
            Some(slot) if self.queues[slot.index()].current == Some(vcpu) => {
                self.leaves(slot, vcpu);
                self.idle.insert(slot);
            }
            _ => {}
        }
        self.entities[vcpu.index()] = None;
    }

    fn wake(&mut self, vcpu: VcpuId, now: Time) -> Placement {
        let (slot, idle) = self.place_for(vcpu);
        let entity = self.entities[vcpu.index()].as_mut().expect("the driver names only vCPUs it added");
        if let Some((there, vruntime)) = entity.debt_of.take()
            && entity.lag < 0
        {
            // What it owed has melted by what its queue went on meanwhile.
            let behind = self.queues[there.index()].mean() - i128::from(vruntime);
            entity.lag = behind.clamp(entity.lag.into(), 0) as i64;
        }
        if idle {
            self.idle.remove(slot);
            let queue = &mut self.queues[slot.index()];
            queue.place(entity, self.slice);
            queue.current = Some(vcpu);
            queue.charged = now;
            entity.home = Some(slot);
            return Placement::Run(slot);
        }
        self.charge(slot, now);
        self.enqueue(slot, vcpu);
        let current = self.queues[slot.index()].current.map(|current| self.entity(current).is_over());
        if current == Some(true) { Placement::Preempt(slot) } else { Placement::Queue(None) }
    }

    fn next(&mut self, slot: Slot, why: Why, now: Time) -> Decision {
        self.charge(slot, now);
        let slice = self.slice;
        let Some(current) = self.queues[slot.index()].current else {
            self.idle.remove(slot);
            if self.queues[slot.index()].waiting() == 0 {
                self.pull(slot);
            }
            return self.reschedule(slot, now);
        };
        match why {
            Why::Free => self.runs_on(slot, now),
            Why::Check | Why::Exit => {
                self.balance(slot, now);
                let entity = self.entity(current);
                if !entity.is_over() {
                    return self.runs_on(slot, now);
                }
                entity.renew(slice);
                self.reschedule(slot, now)
            }
            Why::Yield(_) if !self.config.yields || self.queues[slot.index()].waiting() == 0 => self.runs_on(slot, now),
            Why::Yield(_) => {
                let entity = self.entities[current.index()].as_mut().expect("the running thread is known");
                self.queues[slot.index()].forfeit(entity, slice);
                self.reschedule(slot, now)
            }
            Why::Block | Why::Retire => {
                self.leaves(slot, current);
                if why == Why::Retire {
                    self.entities[current.index()] = None;
                }
                if self.queues[slot.index()].waiting() == 0 {
                    self.pull(slot);
                }
                self.reschedule(slot, now)
            }
        }
    }

    fn waiting(&self) -> usize {
        self.waiting
    }
}

/// The kernel's weights: 1024 at nice 0, a quarter more for each step up; 3 for SCHED_IDLE.
fn weight(of: Attributes) -> u64 {
    let nice = |nice: Nice| (1024.0 * 1.25_f64.powi(-i32::from(nice.get()))).round() as u64;
    if of.class == Class::Idle { 3 } else { nice(of.nice) }
}
