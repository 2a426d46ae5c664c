//! The queue of one pCPU: virtual times, deadlines, and which threads are eligible.
//!
//! A thread is in exactly one place: running ([`RunQueue::current`]), waiting in the tree, or away. The sums are over
//! the threads that run or wait.

use crate::ids::{Slot, VcpuId};
use crate::time::{Nanos, Time};
use std::collections::BTreeSet;

/// Virtual time runs like a clock's for this weight.
const UNIT: u64 = 1024;

/// A thread, as the fair class knows it (units of virtual times and lags: ns at nice 0).
#[derive(Debug, Clone)]
pub(super) struct Entity {
    weight: u64,
    pub(super) vruntime: i64,
    pub(super) deadline: i64,
    /// What it was owed when it left its queue.
    pub(super) lag: i64,
    /// It went to sleep from this queue at this virtual time: while it owes time, that is where it stands.
    pub(super) debt_of: Option<(Slot, i64)>,
    /// The slot it runs, waits or last ran on.
    pub(super) home: Option<Slot>,
    /// It is in the tree.
    pub(super) waits: bool,
    /// It has never been in a queue.
    new: bool,
}

impl Entity {
    pub(super) fn new(weight: u64) -> Self {
        let (vruntime, deadline, lag) = (0, 0, 0);
        Self { weight, vruntime, deadline, lag, debt_of: None, home: None, waits: false, new: true }
    }

    fn virtual_time(&self, span: Nanos) -> i64 {
        (u128::from(span.0) * u128::from(UNIT) / u128::from(self.weight)) as i64
    }

    /// How long it takes to run for this much virtual time (units: ns).
    pub(super) fn real(&self, virtual_time: i64) -> u64 {
        (virtual_time as u128 * u128::from(self.weight)).div_ceil(u128::from(UNIT)) as u64
    }

    /// Whether it has used its slice.
    pub(super) fn is_over(&self) -> bool {
        self.vruntime >= self.deadline
    }

    /// Its next slice.
    pub(super) fn renew(&mut self, slice: Nanos) {
        self.deadline = self.vruntime + self.virtual_time(slice);
    }
}

/// The queue.
#[derive(Debug, Default)]
pub(super) struct RunQueue {
    pub(super) current: Option<VcpuId>,
    /// The running thread is charged up to here.
    pub(super) charged: Time,
    pub(super) next_balance: Time,
    /// Waiting threads, by deadline.
    tree: BTreeSet<(i64, VcpuId)>,
    /// Sums of the weights, and of weights by virtual times.
    weights: i128,
    moments: i128,
    /// The mean when a thread was last here.
    stood: i128,
}

impl RunQueue {
    pub(super) fn waiting(&self) -> usize {
        self.tree.len()
    }

    /// The weighted mean of all virtual times.
    pub(super) fn mean(&self) -> i128 {
        if self.weights == 0 { self.stood } else { self.moments.div_euclid(self.weights) }
    }

    fn is_eligible(&self, vruntime: i64) -> bool {
        i128::from(vruntime) * self.weights <= self.moments
    }

    /// A thread of this queue has run.
    pub(super) fn runs(&mut self, entity: &mut Entity, ran: Nanos) {
        self.shift(entity, entity.virtual_time(ran));
    }

    fn shift(&mut self, entity: &mut Entity, by: i64) {
        entity.vruntime += by;
        self.moments += i128::from(by) * i128::from(entity.weight);
    }

    /// A yield of a thread that runs: it gives up its slice, unless it has run too much already.
    pub(super) fn forfeit(&mut self, entity: &mut Entity, slice: Nanos) {
        if self.is_eligible(entity.vruntime) {
            let left = entity.deadline - entity.vruntime;
            self.shift(entity, left.max(0));
            entity.deadline += entity.virtual_time(slice);
        }
    }

    /// A thread comes: where its lag says, with a slice; a new one with half of one.
    pub(super) fn place(&mut self, entity: &mut Entity, slice: Nanos) {
        let weight = i128::from(entity.weight);
        let mut lag = i128::from(entity.lag);
        if self.weights > 0 {
            // Its coming moves the mean: this much more, and it has its lag then.
            lag = lag * (self.weights + weight) / self.weights;
        } else {
            lag = 0;
        }
        entity.vruntime = (self.mean() - lag) as i64;
        let slice = entity.virtual_time(slice);
        entity.deadline = entity.vruntime + if std::mem::take(&mut entity.new) { slice / 2 } else { slice };
        self.weights += weight;
        self.moments += weight * i128::from(entity.vruntime);
    }

    /// A thread goes, and keeps what it is owed, up to this much running.
    pub(super) fn leave(&mut self, entity: &mut Entity, most: Nanos) {
        let mean = self.mean();
        let most = i128::from(entity.virtual_time(most));
        entity.lag = (mean - i128::from(entity.vruntime)).clamp(-most, most) as i64;
        self.weights -= i128::from(entity.weight);
        self.moments -= i128::from(entity.weight) * i128::from(entity.vruntime);
        self.stood = mean;
    }

    pub(super) fn wait(&mut self, vcpu: VcpuId, entity: &mut Entity) {
        entity.waits = true;
        self.tree.insert((entity.deadline, vcpu));
    }

    pub(super) fn unwait(&mut self, vcpu: VcpuId, entity: &mut Entity) {
        entity.waits = false;
        self.tree.remove(&(entity.deadline, vcpu));
    }

    /// The waiting thread with the latest deadline.
    pub(super) fn last(&self) -> Option<VcpuId> {
        self.tree.last().map(|&(_, vcpu)| vcpu)
    }

    /// The eligible thread with the earliest deadline, of the waiting ones and the running one.
    pub(super) fn best(&self, running: Option<(VcpuId, &Entity)>, vruntime: impl Fn(VcpuId) -> i64) -> Option<VcpuId> {
        let running = running.filter(|(_, entity)| self.is_eligible(entity.vruntime));
        let waits = self.tree.iter().find(|(_, vcpu)| self.is_eligible(vruntime(*vcpu)));
        match (running, waits) {
            (Some((vcpu, entity)), Some(&(deadline, _))) if entity.deadline <= deadline => Some(vcpu),
            (Some((vcpu, _)), None) => Some(vcpu),
            (_, Some(&(_, vcpu))) => Some(vcpu),
            // The thread of the least virtual time is eligible, so there is none at all.
            (None, None) => None,
        }
    }
}
