//! A set of slots with constant-time insertion, removal and search, for up to 4096 slots.

use crate::Slot;

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

fn place(slot: Slot) -> (usize, u64) {
    (slot.index() / 64, 1 << (slot.index() % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
