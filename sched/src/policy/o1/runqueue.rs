//! The run queues: for every slot two arrays of FIFO lists with a bitmap each, and a list above and one below them.
//!
//! All lists are linked through one table indexed by vCPU, so that queueing, leaving and picking take constant time,
//! and memory grows with vCPUs plus slots. A vCPU is in one list at most, and a queue never knows which vCPU runs.

use super::interactivity::LEVELS;
use crate::ids::{Slot, VcpuId};
use crate::policy::slotset::SlotSet;

/// Lists of a slot: two arrays, then [`RT`] and [`IDLE`].
const LISTS: usize = 2 * LEVELS as usize + 2;
const RT: usize = LISTS - 2;
const IDLE: usize = LISTS - 1;
const NONE: u32 = u32::MAX;

/// In which order vCPUs run: lower first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Class rt.
    Rt,
    /// By dynamic level.
    Level(u8),
    /// Class idle.
    Idle,
}

/// Where on its slot a vCPU queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Where its rank is served in this round.
    Active(Rank),
    /// Where its level is served in the next round. Only levels have rounds.
    Expired(u8),
}

#[derive(Debug, Clone, Copy)]
struct Node {
    prev: u32,
    next: u32,
    /// Which list it is in.
    list: u32,
}

const APART: Node = Node { prev: NONE, next: NONE, list: NONE };

#[derive(Debug, Clone)]
struct RunQueue {
    /// First and last of each list.
    ends: [(u32, u32); LISTS],
    /// Levels in use, by array.
    bits: [u64; 2],
    /// Which array is the active one.
    active: usize,
    len: usize,
}

/// All run queues.
#[derive(Debug)]
pub(super) struct RunQueues {
    slots: Box<[RunQueue]>,
    nodes: Vec<Node>,
    /// Slots with a queued vCPU.
    busy: SlotSet,
    len: usize,
}

impl RunQueues {
    pub(super) fn new(slots: usize) -> Self {
        let empty = RunQueue { ends: [(NONE, NONE); LISTS], bits: [0; 2], active: 0, len: 0 };
        Self { slots: vec![empty; slots].into(), nodes: Vec::new(), busy: SlotSet::new(slots), len: 0 }
    }

    /// Makes room for a vCPU of this id; the only call that allocates.
    pub(super) fn admit(&mut self, vcpu: VcpuId) {
        if self.nodes.len() <= vcpu.index() {
            self.nodes.resize(vcpu.index() + 1, APART);
        }
    }

    /// Queued on all slots.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Queued on this slot.
    pub(super) fn len_of(&self, slot: Slot) -> usize {
        self.slots[slot.index()].len
    }

    /// Slots with a queued vCPU.
    pub(super) fn busy(&self) -> &SlotSet {
        &self.busy
    }

    pub(super) fn contains(&self, vcpu: VcpuId) -> bool {
        self.nodes[vcpu.index()].list != NONE
    }

    /// Whether no vCPU is queued on this slot, or only idle ones.
    pub(super) fn has_no_work(&self, slot: Slot) -> bool {
        let queue = &self.slots[slot.index()];
        queue.ends[RT].0 == NONE && queue.bits == [0; 2]
    }

    /// The best rank of this round.
    pub(super) fn best(&self, slot: Slot) -> Option<Rank> {
        let queue = &self.slots[slot.index()];
        if queue.ends[RT].0 != NONE {
            return Some(Rank::Rt);
        }
        let level = queue.bits[queue.active].trailing_zeros() as u8;
        if level < LEVELS {
            return Some(Rank::Level(level));
        }
        // While levels wait for the next round, idle ones wait for them.
        (queue.bits[1 - queue.active] == 0 && queue.ends[IDLE].0 != NONE).then_some(Rank::Idle)
    }

    pub(super) fn push_back(&mut self, slot: Slot, vcpu: VcpuId, place: Place) {
        let list = self.list(slot, place);
        let last = self.slots[slot.index()].ends[list].1;
        self.link(slot, vcpu, list, last, NONE);
    }

    /// Ahead of the others of its rank: it was on its slot and has not had its turn.
    pub(super) fn push_front(&mut self, slot: Slot, vcpu: VcpuId, rank: Rank) {
        let list = self.list(slot, Place::Active(rank));
        let first = self.slots[slot.index()].ends[list].0;
        self.link(slot, vcpu, list, NONE, first);
    }

    pub(super) fn remove(&mut self, vcpu: VcpuId) {
        let node = std::mem::replace(&mut self.nodes[vcpu.index()], APART);
        debug_assert_ne!(node.list, NONE, "only queued vCPUs are taken out");
        let (slot, list) = (node.list as usize / LISTS, node.list as usize % LISTS);
        let queue = &mut self.slots[slot];
        match node.prev {
            NONE => queue.ends[list].0 = node.next,
            prev => self.nodes[prev as usize].next = node.next,
        }
        match node.next {
            NONE => queue.ends[list].1 = node.prev,
            next => self.nodes[next as usize].prev = node.prev,
        }
        if list < RT && queue.ends[list].0 == NONE {
            queue.bits[list / LEVELS as usize] &= !(1 << (list % LEVELS as usize));
        }
        queue.len -= 1;
        self.len -= 1;
        if queue.len == 0 {
            self.busy.remove(Slot(slot as u16));
        }
    }

    /// Takes out the next one to run, and whether it is the first of a new round.
    pub(super) fn pop(&mut self, slot: Slot) -> Option<(VcpuId, bool)> {
        let queue = &mut self.slots[slot.index()];
        let round_over = queue.ends[RT].0 == NONE && queue.bits[queue.active] == 0;
        let new_round = round_over && queue.bits[1 - queue.active] != 0;
        if new_round {
            queue.active = 1 - queue.active;
        }
        let rank = self.best(slot)?;
        let list = self.list(slot, Place::Active(rank));
        let first = VcpuId(self.slots[slot.index()].ends[list].0);
        self.remove(first);
        Some((first, new_round))
    }

    /// Takes out the vCPU that another slot should have, and returns it with its place: an rt vCPU first; else from the
    /// tail of a list the one that would run here last, since caches have forgotten it; an idle one in the end.
    pub(super) fn give_away(&mut self, slot: Slot) -> Option<(VcpuId, Place)> {
        let queue = &self.slots[slot.index()];
        let lowest = |array: usize| queue.bits[array].trailing_zeros() as u8;
        let (active, expired) = (lowest(queue.active), lowest(1 - queue.active));
        let (vcpu, place) = if queue.ends[RT].0 != NONE {
            (queue.ends[RT].0, Place::Active(Rank::Rt))
        } else if expired < LEVELS {
            let place = Place::Expired(expired);
            (queue.ends[self.list(slot, place)].1, place)
        } else if active < LEVELS {
            let place = Place::Active(Rank::Level(active));
            (queue.ends[self.list(slot, place)].1, place)
        } else {
            (queue.ends[IDLE].1, Place::Active(Rank::Idle))
        };
        if vcpu == NONE {
            return None;
        }
        self.remove(VcpuId(vcpu));
        Some((VcpuId(vcpu), place))
    }

    fn list(&self, slot: Slot, place: Place) -> usize {
        let active = self.slots[slot.index()].active;
        match place {
            Place::Active(Rank::Rt) => RT,
            Place::Active(Rank::Idle) => IDLE,
            Place::Active(Rank::Level(level)) => active * LEVELS as usize + level as usize,
            Place::Expired(level) => (1 - active) * LEVELS as usize + level as usize,
        }
    }

    fn link(&mut self, slot: Slot, vcpu: VcpuId, list: usize, prev: u32, next: u32) {
        debug_assert!(!self.contains(vcpu), "a queued vCPU is not queued again");
        self.nodes[vcpu.index()] = Node { prev, next, list: (slot.index() * LISTS + list) as u32 };
        let queue = &mut self.slots[slot.index()];
        match prev {
            NONE => queue.ends[list].0 = vcpu.0,
            prev => self.nodes[prev as usize].next = vcpu.0,
        }
        match next {
            NONE => queue.ends[list].1 = vcpu.0,
            next => self.nodes[next as usize].prev = vcpu.0,
        }
        if list < RT {
            queue.bits[list / LEVELS as usize] |= 1 << (list % LEVELS as usize);
        }
        queue.len += 1;
        self.len += 1;
        self.busy.insert(slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P0: Slot = Slot(0);
    const P1: Slot = Slot(1);

    fn queues() -> RunQueues {
        let mut queues = RunQueues::new(2);
        (0..8).for_each(|v| queues.admit(VcpuId(v)));
        queues
    }

    fn level(level: u8) -> Place {
        Place::Active(Rank::Level(level))
    }

    fn drain(queues: &mut RunQueues, slot: Slot) -> Vec<(u32, bool)> {
        std::iter::from_fn(|| queues.pop(slot)).map(|(vcpu, new_round)| (vcpu.0, new_round)).collect()
    }

    #[test]
    fn rt_runs_first_then_levels_round_by_round_and_idle_after_all_rounds() {
        let mut q = queues();
        q.push_back(P0, VcpuId(0), Place::Active(Rank::Idle));
        q.push_back(P0, VcpuId(1), Place::Expired(3));
        q.push_back(P0, VcpuId(2), level(20));
        q.push_back(P0, VcpuId(3), level(20));
        q.push_front(P0, VcpuId(4), Rank::Level(20));
        q.push_back(P0, VcpuId(5), level(4));
        q.push_back(P0, VcpuId(6), Place::Active(Rank::Rt));
        let order = [(6, false), (5, false), (4, false), (2, false), (3, false), (1, true), (0, false)];
        assert_eq!(drain(&mut q, P0), order);
        assert!(q.len() == 0 && q.busy().first().is_none());
    }

    #[test]
    fn who_leaves_from_anywhere_in_a_list_leaves_it_whole() {
        for gone in 0..3 {
            let mut q = queues();
            (0..3).for_each(|v| q.push_back(P1, VcpuId(v), level(7)));
            q.remove(VcpuId(gone));
            let left: Vec<(u32, bool)> = (0..3).filter(|&v| v != gone).map(|v| (v, false)).collect();
            assert_eq!((q.len_of(P1), q.len_of(P0)), (2, 0));
            assert_eq!(drain(&mut q, P1), left);
        }
    }

    #[test]
    fn the_expired_are_given_away_before_the_active_and_idle_ones_last() {
        let mut q = queues();
        q.push_back(P0, VcpuId(0), Place::Active(Rank::Idle));
        q.push_back(P0, VcpuId(1), level(1));
        q.push_back(P0, VcpuId(2), level(1));
        q.push_back(P0, VcpuId(3), Place::Expired(9));
        let given: Vec<VcpuId> = std::iter::from_fn(|| q.give_away(P0)).map(|(vcpu, _)| vcpu).collect();
        assert_eq!(given, [3, 2, 1, 0].map(VcpuId));
    }
}
