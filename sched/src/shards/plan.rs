//! Which slots make up a shard.

use crate::ids::{Shard, Slot};
use crate::topology::Topology;
use std::num::NonZeroUsize;
use std::ops::Range;

/// A domain's slots in shards of neighbours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardPlan {
    of: Box<[Shard]>,
    slots: Box<[Range<Slot>]>,
}

impl ShardPlan {
    /// All slots in one shard.
    pub fn one(slots: usize) -> Self {
        Self::of_parts([slots])
    }

    /// Shards of at most so many slots, about equally large, none across two caches.
    pub fn new(slots: usize, most: NonZeroUsize, topology: &Topology) -> Self {
        let near = |slot: usize| topology.share_cache(Slot(slot as u16 - 1), Slot(slot as u16));
        let cuts = (1..slots).filter(|&slot| !near(slot)).chain([slots]);
        let mut from = 0;
        let caches: Vec<usize> = cuts.map(|to| to - std::mem::replace(&mut from, to)).collect();
        Self::of_parts(caches.into_iter().flat_map(|cache| {
            let parts = cache.div_ceil(most.get());
            (0..parts).map(move |part| cache / parts + usize::from(part < cache % parts))
        }))
    }

    fn of_parts(parts: impl IntoIterator<Item = usize>) -> Self {
        let (mut of, mut slots) = (Vec::new(), Vec::new());
        for (shard, part) in (0..).map(Shard).zip(parts) {
            let from = of.len();
            of.resize(from + part, shard);
            slots.push(Slot(from as u16)..Slot(of.len() as u16));
        }
        Self { of: of.into(), slots: slots.into() }
    }

    /// Number of shards.
    #[allow(clippy::len_without_is_empty, reason = "there is one at least")]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Number of slots in all shards.
    pub fn all_slots(&self) -> usize {
        self.of.len()
    }

    /// The shard of a slot.
    pub fn of(&self, slot: Slot) -> Shard {
        self.of[slot.index()]
    }

    /// All shards.
    pub fn shards(&self) -> impl Iterator<Item = Shard> + use<> {
        (0..self.slots.len() as u16).map(Shard)
    }

    /// A shard other than this one, if there is one: a different one for each of as many numbers in a row.
    pub fn other(&self, shard: Shard, number: usize) -> Shard {
        let others = (self.len() - 1).max(1);
        Shard(((shard.index() + 1 + number % others) % self.len()) as u16)
    }

    /// The slots of a shard.
    pub fn slots(&self, shard: Shard) -> Range<Slot> {
        self.slots[shard.index()].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(plan: &ShardPlan) -> Vec<usize> {
        plan.shards().map(|shard| plan.slots(shard)).map(|slots| slots.end.index() - slots.start.index()).collect()
    }

    #[test]
    fn slots_of_one_cache_are_divided_evenly() {
        let plan = |slots, most| ShardPlan::new(slots, NonZeroUsize::new(most).unwrap(), &Topology::default());
        assert_eq!(sizes(&plan(2, 8)), [2]);
        assert_eq!(sizes(&plan(9, 8)), [5, 4]);
        assert_eq!(sizes(&plan(512, 16)), [16; 32]);
        assert_eq!(plan(9, 8).of(Slot(5)), Shard(1));
        assert_eq!(ShardPlan::one(9), plan(9, 9));
    }

    #[test]
    fn no_shard_reaches_across_two_caches() {
        let cpus: Vec<usize> = (0..12).collect();
        let topology = Topology::new(&cpus, [], [&cpus[..6], &cpus[6..]]);
        let plan = |most| ShardPlan::new(12, NonZeroUsize::new(most).unwrap(), &topology);
        assert_eq!((sizes(&plan(12)), sizes(&plan(4))), (vec![6, 6], vec![3, 3, 3, 3]));
    }
}
