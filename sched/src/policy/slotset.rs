//! A set of slots with constant-time insertion, removal and search, for up to 4096 slots.

use crate::ids::Slot;
use crate::topology::Topology;

/// Most slots of a domain.
pub(crate) const MAX_SLOTS: usize = 64 * 64;

/// Two levels of bits: `summary` has a bit for every word that is not zero.
#[derive(Debug, Clone)]
pub(crate) struct SlotSet {
    summary: u64,
    words: Box<[u64]>,
}

impl SlotSet {
    /// An empty set for this many slots.
    pub(crate) fn new(slots: usize) -> Self {
        assert!(slots <= MAX_SLOTS, "a domain has at most {MAX_SLOTS} slots");
        Self { summary: 0, words: vec![0; slots.div_ceil(64)].into() }
    }

    pub(crate) fn insert(&mut self, slot: Slot) {
        let (word, bit) = place(slot);
        self.words[word] |= bit;
        self.summary |= 1 << word;
    }

    pub(crate) fn remove(&mut self, slot: Slot) {
        let (word, bit) = place(slot);
        self.words[word] &= !bit;
        if self.words[word] == 0 {
            self.summary &= !(1 << word);
        }
    }

    pub(crate) fn contains(&self, slot: Slot) -> bool {
        let (word, bit) = place(slot);
        self.words[word] & bit != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.summary == 0
    }

    /// The lowest slot of the set.
    pub(crate) fn first(&self) -> Option<Slot> {
        first_word(self.summary).map(|word| self.lowest_in(word, !0))
    }

    /// The first slot of the set behind this one, going round.
    pub(crate) fn after(&self, slot: Slot) -> Option<Slot> {
        let (word, bit) = place(slot);
        let behind = !(bit | (bit - 1));
        if self.words[word] & behind != 0 {
            return Some(self.lowest_in(word, behind));
        }
        let further = self.summary & !(1 << word | ((1 << word) - 1));
        first_word(further).map(|word| self.lowest_in(word, !0)).or_else(|| self.first())
    }

    fn lowest_in(&self, word: usize, mask: u64) -> Slot {
        Slot((word as u32 * 64 + (self.words[word] & mask).trailing_zeros()) as u16)
    }
}

fn first_word(summary: u64) -> Option<usize> {
    (summary != 0).then(|| summary.trailing_zeros() as usize)
}

/// Searches near a slot.
impl SlotSet {
    /// The slot of the set that is nearest to where a vCPU ran last: that one, one of its core, one behind its cache,
    /// any. Looks at words of 64 slots, and only at those of its core and its cache.
    pub(crate) fn nearest(&self, last: Option<Slot>, topology: &Topology) -> Option<Slot> {
        let Some(last) = last else { return self.first() };
        if self.contains(last) {
            return Some(last);
        }
        let hits = topology.around(last).map(|(word, bits)| (word, self.words[word] & bits));
        let near = hits.into_iter().find(|(_, bits)| *bits != 0);
        near.map(|(word, bits)| Slot((word as u32 * 64 + bits.trailing_zeros()) as u16)).or_else(|| self.first())
    }
}

fn place(slot: Slot) -> (usize, u64) {
    (slot.index() / 64, 1 << (slot.index() % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nearest_is_the_last_slot_then_its_core_then_its_cache_then_any() {
        // Two caches of two cores of two threads each.
        let cpus: Vec<usize> = (0..8).collect();
        let cores: [&[usize]; 4] = [&[0, 1], &[2, 3], &[4, 5], &[6, 7]];
        let caches: [&[usize]; 2] = [&[0, 1, 2, 3], &[4, 5, 6, 7]];
        let topology = Topology::new(&cpus, cores, caches);
        let mut set = SlotSet::new(8);
        [0, 2, 5, 6].into_iter().for_each(|slot| set.insert(Slot(slot)));
        for (last, nearest) in [(5, 5), (4, 6), (7, 6), (3, 2)] {
            set.remove(Slot(if last == 4 { 5 } else { 7 }));
            assert_eq!(set.nearest(Some(Slot(last)), &topology), Some(Slot(nearest)), "from {last}");
        }
        set.remove(Slot(6));
        assert_eq!(set.nearest(Some(Slot(7)), &topology), Some(Slot(0)), "another cache");
        assert_eq!(set.nearest(None, &topology), Some(Slot(0)));
        [0, 2].into_iter().for_each(|slot| set.remove(Slot(slot)));
        assert_eq!(set.nearest(Some(Slot(7)), &topology), None);
    }

    proptest! {
        #[test]
        fn behaves_like_an_ordered_set(steps in prop::collection::vec((any::<bool>(), 0u16..300), 0..200)) {
            let mut set = SlotSet::new(300);
            let mut model = std::collections::BTreeSet::new();
            for (insert, slot) in steps {
                if insert {
                    set.insert(Slot(slot));
                    model.insert(slot);
                } else {
                    set.remove(Slot(slot));
                    model.remove(&slot);
                }
                prop_assert_eq!(set.first().map(|s| s.0), model.first().copied());
                prop_assert_eq!(set.contains(Slot(slot)), model.contains(&slot));
                let after = model.range(slot + 1..).next().or(model.first());
                prop_assert_eq!(set.after(Slot(slot)).map(|s| s.0), after.copied());
            }
        }
    }
}
