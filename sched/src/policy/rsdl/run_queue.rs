//! The run queue of a slot: the place of each queued vCPU, and the one that is next.

use super::budgets::Budgets;
use super::clock::Pace;
use super::config::RsdlConfig;
use super::limits::{DEEPEST, LAG, PUT_BACK, kept};
use super::matrix::{Row, Stair, Variant};
use super::sleepers::Sleepers;
use super::state::Rsdl;
use crate::attributes::Class;
use crate::ids::{Nice, Slot, VcpuId};
use crate::policy::prefetch::prefetch;
use crate::policy::queue::{Kind, Queue, WINDOW};
use crate::time::Nanos;
use std::ops::{Index, IndexMut};

/// The queues of all slots: each its own, or one for all.
#[derive(Debug)]
pub(super) struct RunQueues(Box<[RunQueue]>);

impl RunQueues {
    pub(super) fn new(config: &RsdlConfig, slots: usize) -> Self {
        let queues = if config.per_pcpu_queues { slots } else { 1 };
        Self((0..queues).map(|_| RunQueue::new(config)).collect())
    }

    /// All slots share one queue.
    pub(super) fn are_one(&self) -> bool {
        self.0.len() == 1
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &RunQueue> {
        self.0.iter()
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The first slot of those that share a slot's queue.
    pub(super) fn owner(&self, slot: Slot) -> Slot {
        if self.are_one() { Slot(0) } else { slot }
    }
}

impl Index<Slot> for RunQueues {
    type Output = RunQueue;

    fn index(&self, slot: Slot) -> &RunQueue {
        &self.0[self.owner(slot).index()]
    }
}

impl IndexMut<Slot> for RunQueues {
    fn index_mut(&mut self, slot: Slot) -> &mut RunQueue {
        &mut self.0[self.owner(slot).index()]
    }
}

/// A queue, and its staircase. The stairs of all queues are one scale.
#[derive(Debug)]
pub(super) struct RunQueue {
    /// All queued vCPUs but those of the two classes below.
    pub(super) staircase: Queue,
    /// Class rt, first come first served; all on stair 0.
    pub(super) rt: Queue,
    /// Class idle; all on stair 0.
    pub(super) idlers: Queue,
    /// The stair being served: the highest from which a head was picked in its turn.
    pub(super) served: Stair,
    pub(super) budgets: Option<Budgets>,
    pub(super) sleepers: Sleepers,
    pub(super) pace: Pace,
    /// vCPUs whose home the slot is.
    pub(super) residents: usize,
    /// Where its next vCPU stood when the slot last took one that stood further up from a queue no longer than its own.
    pub(super) pulled_at: Stair,
    /// The [progress](Rsdl::progress) up to which those that looked in vain were recalled.
    pub(super) recalled: u64,
}

impl RunQueue {
    pub(super) fn new(config: &RsdlConfig) -> Self {
        let usual = Row::new(Nice::default(), config.rr_interval, config.variant);
        Self {
            staircase: Queue::new().with_floor(kept(config) - LAG),
            rt: Queue::new(),
            idlers: Queue::new(),
            served: kept(config),
            budgets: (config.variant == Variant::LevelQuota).then(|| Budgets::new(kept(config) - LAG)),
            sleepers: Sleepers::new(kept(config)),
            pace: Pace::new(usual.per_rotation()),
            residents: 0,
            pulled_at: 0,
            recalled: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.staircase.len() + self.rt.len() + self.idlers.len()
    }
}

/// Where a vCPU joins the run queue.
#[derive(Debug, Clone, Copy)]
pub(super) enum Join {
    /// Behind all others of its stair, or of this one if that is further down.
    Tail(Stair),
    /// As [`Tail`](Self::Tail), but it keeps its place in the order of time, and runs after those that did not look in
    /// vain.
    InVain(Stair),
    /// Where it stood before it ran, if it is still on that stair.
    OldPlace,
}

impl Rsdl {
    /// Puts a vCPU that is neither queued nor running into the queue of its home.
    pub(super) fn enqueue(&mut self, vcpu: VcpuId, join: Join) {
        let home = self.home(vcpu);
        let (kept, one) = (kept(&self.config), self.queues.are_one());
        let q = self.queue(home);
        let (served, lowest) = (q.served, q.served - LAG);
        let left_behind = (served - kept).min(q.pace.stair().saturating_sub(LAG));
        // One step of its row further up, it keeps its stair: to catch up would cost a quota that it has not used.
        let v = self.vcpu(vcpu);
        if v.row.after(v.stair) < left_behind {
            self.catch_up(vcpu, left_behind);
        }
        let v = self.vcpus[vcpu.index()].as_mut().expect("a queued vCPU is known");
        v.on = None;
        let kind = if v.waits { Kind::Waiting } else { Kind::Computing };
        // One that fell behind elsewhere goes ahead of those here, but not of those that wake up.
        let stair = if v.stair < lowest { if one { lowest } else { served - 1 } } else { v.stair };
        let stair = match join {
            Join::Tail(at_least) | Join::InVain(at_least) => stair.max(at_least),
            Join::OldPlace => stair,
        };
        let stair = stair.min(lowest + WINDOW - 1);
        let (behind, left) = (v.stair < lowest && !one, v.row.quota.saturating_sub(v.used));
        (v.queued_on, v.queued_at) = (stair, self.time.now);
        if behind {
            self.grant(home, stair, left);
        }
        let v = self.vcpus[vcpu.index()].as_ref().expect("a queued vCPU is known");
        let (nodes, q) = (&mut self.nodes, &mut self.queues[home]);
        match v.class {
            Class::Rt => {
                q.rt.push(nodes, vcpu, 0, kind);
                self.rt_waiting.insert(self.queues.owner(home));
            }
            Class::Idle => q.idlers.push(nodes, vcpu, 0, kind),
            Class::Normal | Class::Batch => match join {
                Join::OldPlace => q.staircase.push_at(nodes, vcpu, stair, kind),
                Join::InVain(_) => q.staircase.push_in_vain(nodes, vcpu, stair),
                Join::Tail(_) => q.staircase.push(nodes, vcpu, stair, kind),
            },
        }
        self.queued += 1;
        self.waiting.insert(self.queues.owner(home));
    }

    /// Takes a vCPU out of its queue. False: it is in none.
    pub(super) fn dequeue(&mut self, vcpu: VcpuId) -> bool {
        if !self.nodes.contains(vcpu) {
            return false;
        }
        let v = self.vcpus[vcpu.index()].as_ref().expect("a queued vCPU is known");
        let (home, class, nodes) = (v.home, v.class, &mut self.nodes);
        let q = &mut self.queues[home];
        match class {
            Class::Rt => {
                q.rt.remove(nodes, vcpu);
                if q.rt.len() == 0 {
                    self.rt_waiting.remove(self.queues.owner(home));
                }
            }
            Class::Idle => q.idlers.remove(nodes, vcpu),
            Class::Normal | Class::Batch => q.staircase.remove(nodes, vcpu),
        }
        self.queued -= 1;
        if self.queues[home].len() == 0 {
            self.waiting.remove(self.queues.owner(home));
        }
        true
    }

    /// Takes the next vCPU out of a slot's queue to run there. The served stair moves on to where it stands, but not
    /// past `at_most`, where a vCPU stands that lets it through.
    pub(super) fn pick(&mut self, slot: Slot, at_most: Stair) -> Option<VcpuId> {
        let q = &self.queues[slot];
        let (rt, others) = (q.rt.head(&self.nodes), q.staircase.len());
        if let Some((vcpu, _)) = rt
            && (self.rt_may_run(slot) || others == 0)
        {
            self.dequeue(vcpu);
            return Some(vcpu);
        }
        let Some((vcpu, stair)) = self.head_that_owes_nothing(slot, at_most) else {
            let (vcpu, _) = self.queues[slot].idlers.head(&self.nodes)?;
            self.dequeue(vcpu);
            return Some(vcpu);
        };
        self.serve(slot, stair.min(at_most));
        self.take(vcpu);
        let v = self.vcpu(vcpu);
        if stair > v.queued_on {
            // Pushed down by a minor rotation, to stay there.
            v.stair = v.stair.max(stair);
        }
        Some(vcpu)
    }

    /// Takes a vCPU out of the staircase, and asks for the state of the vCPU that comes two decisions later: among many
    /// vCPUs it is in no near cache, and one decision is too short to fetch it.
    pub(super) fn take(&mut self, vcpu: VcpuId) {
        let home = self.home(vcpu);
        if let Some(later) = self.queues[home].staircase.second_behind(&self.nodes, vcpu) {
            self.vcpus[later.index()].iter().for_each(|v| prefetch(&**v));
        }
        self.dequeue(vcpu);
    }

    /// The next vCPU of the staircase. One that was charged while it waited, or that owes more than its place showed,
    /// is put further back, if another waits.
    fn head_that_owes_nothing(&mut self, slot: Slot, at_most: Stair) -> Option<(VcpuId, Stair)> {
        for _ in 0..PUT_BACK {
            let (vcpu, stair) = self.head_after_minor_rotations(slot)?;
            let q = &self.queues[slot];
            let end = q.served - LAG + WINDOW - 1;
            if self.vcpu(vcpu).stair.min(end) <= stair || self.queues[slot].staircase.len() == 1 {
                return Some((vcpu, stair));
            }
            self.serve(slot, stair.min(at_most));
            self.dequeue(vcpu);
            self.enqueue(vcpu, Join::Tail(0));
        }
        self.head_after_minor_rotations(slot)
    }

    fn head_after_minor_rotations(&mut self, slot: Slot) -> Option<(VcpuId, Stair)> {
        loop {
            let q = &mut self.queues[slot];
            let (vcpu, stair) = q.staircase.head(&self.nodes)?;
            let exhausted = q.budgets.as_ref().is_some_and(|budgets| budgets.is_exhausted(stair));
            if !exhausted || stair >= q.served + DEEPEST {
                return Some((vcpu, stair));
            }
            q.staircase.push_down(&mut self.nodes, stair);
            // A vCPU with a quota left there brings it along.
            let left = self.quota_left(vcpu);
            self.grant(slot, stair + 1, left);
        }
    }

    /// The served stair moves on. vCPUs that are queued below it move up to it.
    pub(super) fn serve(&mut self, slot: Slot, stair: Stair) {
        let q = &mut self.queues[slot];
        if stair <= q.served {
            return;
        }
        let asleep = q.sleepers.count();
        q.served = stair;
        if let Some(budgets) = &mut q.budgets {
            budgets.forget(stair - LAG);
        }
        q.sleepers.pass(stair - LAG);
        q.staircase.raise_floor(&mut self.nodes, stair - LAG);
        self.asleep -= asleep - q.sleepers.count();
    }

    /// Whether class rt may still use this slot.
    pub(super) fn rt_may_run(&mut self, slot: Slot) -> bool {
        let now = self.time.now;
        self.slots[slot.index()].rt_budget.left(now) > Nanos::ZERO
    }
}
