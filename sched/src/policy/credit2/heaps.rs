//! Queued vCPUs: for every slot a heap of those that are at home there, the next one to run on top.
//!
//! The heaps are leftist trees linked through one table indexed by vCPU. So queueing and leaving, from any place, take
//! logarithmic time, the top is found in constant time, and memory is in vCPUs plus slots. A vCPU is in one heap at
//! most.

use super::credit::Credit;
use crate::ids::{Slot, VcpuId};

const NONE: u32 = u32::MAX;

/// Among which vCPUs one runs: lower first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Class rt.
    Rt,
    /// By credit.
    Credit,
    /// Class idle.
    Idle,
}

/// Ranks there are.
pub(super) const RANKS: usize = 3;

/// Where a queued vCPU stands: the lower one runs first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) rank: Rank,
    /// Less for more credit; all the same outside [`Rank::Credit`].
    pub(super) debt: Credit,
    /// First come, first served among equals.
    pub(super) number: u64,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    place: Place,
    left: u32,
    right: u32,
    up: u32,
    /// Nodes on the way down to the right, this one included; never more than on the left.
    depth: u32,
    /// The heap it is in.
    slot: u16,
}

const NOWHERE: u16 = u16::MAX;
const APART: Node = Node {
    place: Place { rank: Rank::Idle, debt: 0, number: 0 },
    left: NONE,
    right: NONE,
    up: NONE,
    depth: 1,
    slot: NOWHERE,
};

/// All heaps.
#[derive(Debug)]
pub(super) struct Heaps {
    tops: Box<[u32]>,
    nodes: Vec<Node>,
    len: usize,
}

impl Heaps {
    pub(super) fn new(slots: usize) -> Self {
        Self { tops: vec![NONE; slots].into(), nodes: Vec::new(), len: 0 }
    }

    /// Makes room for a vCPU of this id; the only call that allocates.
    pub(super) fn admit(&mut self, vcpu: VcpuId) {
        if self.nodes.len() <= vcpu.index() {
            self.nodes.resize(vcpu.index() + 1, APART);
        }
    }

    /// Queued in all heaps.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn contains(&self, vcpu: VcpuId) -> bool {
        self.nodes[vcpu.index()].slot != NOWHERE
    }

    /// The first of this slot.
    pub(super) fn first(&self, slot: Slot) -> Option<(Place, VcpuId)> {
        let top = self.tops[slot.index()];
        (top != NONE).then(|| (self.nodes[top as usize].place, VcpuId(top)))
    }

    pub(super) fn push(&mut self, slot: Slot, vcpu: VcpuId, place: Place) {
        debug_assert!(!self.contains(vcpu), "a queued vCPU is not queued again");
        self.nodes[vcpu.index()] = Node { place, slot: slot.0, ..APART };
        let top = self.merge(self.tops[slot.index()], vcpu.0);
        self.tops[slot.index()] = top;
        self.nodes[top as usize].up = NONE;
        self.len += 1;
    }

    pub(super) fn remove(&mut self, vcpu: VcpuId) {
        let node = std::mem::replace(&mut self.nodes[vcpu.index()], APART);
        debug_assert_ne!(node.slot, NOWHERE, "only queued vCPUs are taken out");
        let rest = self.merge(node.left, node.right);
        if rest != NONE {
            self.nodes[rest as usize].up = node.up;
        }
        self.len -= 1;
        if node.up == NONE {
            self.tops[usize::from(node.slot)] = rest;
            return;
        }
        let above = &mut self.nodes[node.up as usize];
        *if above.left == vcpu.0 { &mut above.left } else { &mut above.right } = rest;
        let mut above = node.up;
        while above != NONE && self.mend(above) {
            above = self.nodes[above as usize].up;
        }
    }

    /// One tree of two; the caller sets what is above it.
    fn merge(&mut self, a: u32, b: u32) -> u32 {
        let (top, other) = match (a, b) {
            (NONE, only) | (only, NONE) => return only,
            _ if self.nodes[b as usize].place < self.nodes[a as usize].place => (b, a),
            _ => (a, b),
        };
        // As deep as the ways down to the right are long.
        let right = self.merge(self.nodes[top as usize].right, other);
        self.nodes[top as usize].right = right;
        self.nodes[right as usize].up = top;
        self.mend(top);
        top
    }

    /// Sees to it that the way down to the right is the shorter one; true if its length has changed.
    fn mend(&mut self, at: u32) -> bool {
        let node = self.nodes[at as usize];
        let (left, right) = (self.depth(node.left), self.depth(node.right));
        let mended = &mut self.nodes[at as usize];
        if left < right {
            (mended.left, mended.right) = (node.right, node.left);
        }
        mended.depth = left.min(right) + 1;
        mended.depth != node.depth
    }

    fn depth(&self, at: u32) -> u32 {
        if at == NONE { 0 } else { self.nodes[at as usize].depth }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const VCPUS: u32 = 40;

    fn any_rank() -> impl Strategy<Value = Rank> {
        prop_oneof![Just(Rank::Rt), Just(Rank::Credit), Just(Rank::Idle)]
    }

    /// The longest way down to the right.
    fn deepest(heaps: &Heaps) -> u32 {
        heaps.tops.iter().map(|&top| heaps.depth(top)).max().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn orders_like_a_sorted_set(
            steps in prop::collection::vec((0..VCPUS, 0u16..2, any_rank(), -5i64..5), 0..400),
        ) {
            let mut heaps = Heaps::new(2);
            (0..VCPUS).for_each(|v| heaps.admit(VcpuId(v)));
            let mut model = [BTreeSet::new(), BTreeSet::new()];
            for (number, (v, slot, rank, debt)) in (0..).zip(steps) {
                let vcpu = VcpuId(v);
                if heaps.contains(vcpu) {
                    heaps.remove(vcpu);
                    model.iter_mut().for_each(|set| set.retain(|&(_, other)| other != vcpu));
                } else {
                    let place = Place { rank, debt, number };
                    heaps.push(Slot(slot), vcpu, place);
                    model[usize::from(slot)].insert((place, vcpu));
                }
                for slot in 0..2 {
                    prop_assert_eq!(heaps.first(Slot(slot)), model[usize::from(slot)].first().copied());
                }
                let len = model[0].len() + model[1].len();
                prop_assert_eq!(heaps.len(), len);
                prop_assert!(1u64 << deepest(&heaps) <= len as u64 + 1, "as deep as the logarithm");
            }
        }
    }
}
