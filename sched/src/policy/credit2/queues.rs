//! How run queues are used: queueing, leaving, finding the next vCPU, and changing run queues.

use super::heaps::{Place, Rank};
use super::{Credit2, LOOK, RESISTANCE};
use crate::ids::{Slot, VcpuId};
use crate::time::Time;

impl Credit2 {
    /// Queues a vCPU where it is at home.
    pub(super) fn enqueue(&mut self, vcpu: VcpuId) {
        let v = self.vcpu(vcpu);
        let (rank, home, queue) = (v.rank(), v.home, v.queue);
        let debt = if rank == Rank::Credit { -v.account } else { 0 };
        self.queued += 1;
        self.heaps.push(home, vcpu, Place { rank, debt, number: self.queued });
        self.queues[queue].waiting[rank as usize] += 1;
        self.waiting[rank as usize].insert(Slot(queue as u16));
    }

    pub(super) fn dequeue(&mut self, vcpu: VcpuId) {
        self.heaps.remove(vcpu);
        let v = self.vcpu(vcpu);
        let (rank, queue) = (v.rank() as usize, v.queue);
        self.queues[queue].waiting[rank] -= 1;
        if self.queues[queue].waiting[rank] == 0 {
            self.waiting[rank].remove(Slot(queue as u16));
        }
    }

    /// The first of a run queue.
    pub(super) fn head(&self, queue: usize) -> Option<VcpuId> {
        let firsts = self.queues[queue].slots.iter().filter_map(|&slot| self.heaps.first(slot));
        firsts.min().map(|(_, vcpu)| vcpu)
    }

    /// The first of a run queue, if it is of this rank.
    pub(super) fn head_of(&self, queue: usize, rank: Rank) -> Option<VcpuId> {
        (self.queues[queue].first_rank() == Some(rank)).then(|| self.head(queue)).flatten()
    }

    /// The first of another run queue where this rank waits: of the next eight, the one with most vCPUs of the rank.
    pub(super) fn elsewhere(&self, queue: usize, rank: Rank) -> Option<VcpuId> {
        let behind = |from: Slot| self.waiting[rank as usize].after(from);
        let others = std::iter::successors(behind(Slot(queue as u16)), |&from| behind(from)).take(LOOK);
        let longest = others.max_by_key(|other| self.queues[other.index()].waiting[rank as usize])?;
        self.head(longest.index())
    }

    /// The next vCPU for a slot of this run queue: the first here, but a better rank from elsewhere goes ahead.
    pub(super) fn next_for(&self, queue: usize) -> Option<VcpuId> {
        let ranks = [Rank::Rt, Rank::Credit, Rank::Idle];
        ranks.into_iter().find_map(|rank| self.head_of(queue, rank).or_else(|| self.elsewhere(queue, rank)))
    }

    /// The queued vCPU that may have the slot of this one, both running by credit: the first that the migration
    /// resistance lets through, if it has more credit or if that does not matter.
    pub(super) fn candidate(&self, slot: Slot, current: VcpuId, whatever_credit: bool) -> Option<VcpuId> {
        let own = self.credit(current);
        let head = self.head_of(self.slots[slot.index()].queue, Rank::Credit)?;
        let passes = self.vcpu(head).home == slot || self.credit(head) >= own + RESISTANCE;
        let local = || self.heaps.first(slot).filter(|(place, _)| place.rank == Rank::Credit).map(|(_, vcpu)| vcpu);
        let next = if passes { Some(head) } else { local() };
        next.filter(|&next| whatever_credit || self.credit(next) > own)
    }

    /// Whether a vCPU of a better rank than this waits anywhere.
    pub(super) fn better_waits(&self, rank: Rank) -> bool {
        self.waiting[..rank as usize].iter().any(|queues| queues.first().is_some())
    }

    /// A vCPU that is not queued changes run queues and takes its credit and its load along.
    pub(super) fn migrate(&mut self, vcpu: VcpuId, to: usize, now: Time) {
        let credit = self.credit(vcpu);
        let v = self.vcpu_mut(vcpu);
        v.load.update(now);
        let (from, load, runs) = (std::mem::replace(&mut v.queue, to), v.load.average(), v.load.runnable() > 0);
        let (rank, nice) = (v.rank(), v.nice);
        self.set_credit(vcpu, credit);
        self.queues[from].lose(load, runs, now);
        self.queues[to].gain(load, runs, now);
        if rank == Rank::Credit {
            self.queues[from].weights.remove(nice);
            self.queues[to].weights.add(nice);
        }
    }
}
