//! Run queues: the slots behind one last-level cache, the credit and load of their vCPUs, and how many wait.

use super::credit::{Credit, RESET, Weights};
use super::heaps::{RANKS, Rank};
use super::load::{Average, Load};
use crate::ids::Slot;
use crate::time::Time;
use crate::topology::Topology;

/// The most slots of a run queue, so that looking at each takes bounded time. Xen: sched_credit2_max_cpus_runqueue.
pub(super) const MOST_SLOTS: usize = 16;

/// A run queue.
#[derive(Debug)]
pub(super) struct RunQueue {
    /// Its slots, [`MOST_SLOTS`] at most.
    pub(super) slots: Box<[Slot]>,
    /// Credit that resets have added so far to that of each vCPU.
    pub(super) added: Credit,
    /// The weights of the vCPUs that run by credit, asleep or not.
    pub(super) weights: Weights,
    pub(super) load: Load,
    /// vCPUs that wait, by rank.
    pub(super) waiting: [u32; RANKS],
    /// Which of its slots is the next to be a vCPU's home.
    next_home: usize,
}

impl RunQueue {
    fn new(slots: &[Slot]) -> Self {
        Self {
            slots: slots.into(),
            added: 0,
            weights: Weights::new(),
            load: Load::none(),
            waiting: [0; RANKS],
            next_home: 0,
        }
    }

    /// A home for a vCPU that comes here: each slot in turn.
    pub(super) fn home(&mut self) -> Slot {
        let home = self.slots[self.next_home];
        self.next_home = (self.next_home + 1) % self.slots.len();
        home
    }

    /// The credit of each vCPU grows by so many resets.
    pub(super) fn reset(&mut self, times: i64) {
        self.added += times * RESET;
    }

    /// A vCPU of this load comes, one that can run or not.
    pub(super) fn gain(&mut self, load: Average, runs: bool, now: Time) {
        if runs {
            self.load.begin(now);
        }
        self.load.join(load);
    }

    /// A vCPU of this load goes, one that can run or not.
    pub(super) fn lose(&mut self, load: Average, runs: bool, now: Time) {
        if runs {
            self.load.end(now);
        }
        self.load.leave(load);
    }

    /// The first rank that waits.
    pub(super) fn first_rank(&self) -> Option<Rank> {
        [Rank::Rt, Rank::Credit, Rank::Idle].into_iter().find(|&rank| self.waiting[rank as usize] > 0)
    }
}

/// A run queue for each last-level cache. Where more slots than [`MOST_SLOTS`] share one, they are split evenly over
/// the fewest run queues.
pub(super) fn arrange(slots: usize, topology: &Topology) -> Vec<RunQueue> {
    let mut caches: Vec<Vec<Slot>> = Vec::new();
    for slot in (0..slots).map(|slot| Slot(slot as u16)) {
        match caches.iter_mut().find(|cache| topology.share_cache(cache[0], slot)) {
            Some(cache) => cache.push(slot),
            None => caches.push(vec![slot]),
        }
    }
    let split = |cache: &Vec<Slot>| {
        let queues = cache.len().div_ceil(MOST_SLOTS);
        let bounds = (0..=queues).map(|n| n * cache.len() / queues).collect::<Vec<_>>();
        bounds.windows(2).map(|ends| RunQueue::new(&cache[ends[0]..ends[1]])).collect::<Vec<_>>()
    };
    caches.iter().flat_map(split).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(slots: usize, topology: &Topology) -> Vec<usize> {
        arrange(slots, topology).iter().map(|queue| queue.slots.len()).collect()
    }

    #[test]
    fn slots_behind_one_cache_share_a_run_queue_wherever_they_stand() {
        let topology = Topology::new(&[0, 1, 2, 3], [], [&[0, 2][..], &[1, 3]]);
        let queues = arrange(4, &topology);
        assert_eq!(
            queues.iter().map(|queue| queue.slots.to_vec()).collect::<Vec<_>>(),
            [[Slot(0), Slot(2)], [Slot(1), Slot(3)]]
        );
    }

    #[test]
    fn a_cache_of_many_slots_has_run_queues_of_equal_size() {
        assert_eq!(sizes(16, &Topology::default()), [16]);
        assert_eq!(sizes(20, &Topology::default()), [10, 10]);
        assert_eq!(sizes(33, &Topology::default()), [11, 11, 11]);
    }

    #[test]
    fn each_slot_is_a_home_in_turn() {
        let mut queue = arrange(3, &Topology::default()).remove(0);
        assert_eq!([0; 4].map(|_| queue.home().0), [0, 1, 2, 0]);
    }
}
