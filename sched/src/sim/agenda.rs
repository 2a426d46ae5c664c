//! When each slot does something next, and which is first: a tournament among the slots.
//!
//! Of slots with the same time the lowest is first, so that a run never depends on how the tree came about.

use crate::time::Time;

/// The next time of every slot.
#[derive(Debug)]
pub(super) struct Agenda {
    /// A node is the first of its children, 2n and 2n + 1; the leaves are the slots.
    tree: Box<[(Time, u16)]>,
    leaves: usize,
}

impl Agenda {
    /// No slot does anything.
    pub(super) fn new(slots: usize) -> Self {
        let leaves = slots.next_power_of_two();
        let mut tree: Box<[(Time, u16)]> = vec![(Time::NEVER, u16::MAX); 2 * leaves].into();
        (0..slots).for_each(|slot| tree[leaves + slot].1 = slot as u16);
        (1..leaves).rev().for_each(|node| tree[node] = tree[2 * node].min(tree[2 * node + 1]));
        Self { tree, leaves }
    }

    /// The first slot, and when it is due.
    pub(super) fn first(&self) -> (Time, usize) {
        let (at, slot) = self.tree[1];
        (at, usize::from(slot))
    }

    /// A slot's next time changes.
    pub(super) fn set(&mut self, slot: usize, at: Time) {
        let mut node = self.leaves + slot;
        self.tree[node].0 = at;
        while node > 1 {
            node /= 2;
            let first = self.tree[2 * node].min(self.tree[2 * node + 1]);
            if std::mem::replace(&mut self.tree[node], first) == first {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_is_the_least_of_all(slots in 1usize..70, steps in prop::collection::vec((0usize..70, 0u64..50), 0..200)) {
            let mut agenda = Agenda::new(slots);
            let mut model = vec![Time::NEVER; slots];
            for (slot, at) in steps {
                let slot = slot % slots;
                agenda.set(slot, Time(at));
                model[slot] = Time(at);
                prop_assert_eq!(Some(agenda.first()), model.iter().copied().enumerate().map(|(s, at)| (at, s)).min());
            }
        }
    }
}
