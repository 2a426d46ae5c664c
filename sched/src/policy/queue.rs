//! The run queue: an endless staircase of FIFO lists, of which a window of [`WINDOW`] stairs is in use at any time.
//!
//! Order: lowest stair first, and within a stair the order of places. A place is given when a vCPU is put at the tail;
//! one that comes back may take its old place again. There are three lists: vCPUs that computed when they were last
//! seen, vCPUs that waited for another, and vCPUs that waited and looked in vain. So the first of each kind is found in
//! constant time. Seen together they are one queue.
//!
//! All lists are circular and linked through one table, with a sentinel each, so that a node can leave without knowing
//! which list it is in, and a whole list can be moved by relinking its ends.

use super::prefetch::prefetch;
use crate::ids::VcpuId;

/// Stairs that can be in use at once.
pub(crate) const WINDOW: u64 = 128;
/// Longest walk to an old place. A vCPU that returns to its place was near the head when it left. If others with older
/// places have come since, the walk ends here and the vCPU stands a little too far back.
const PLACE_STEPS: usize = 16;
const KINDS: usize = 3;
const LISTS: usize = KINDS * WINDOW as usize;
const NONE: u32 = u32::MAX;

/// What a queued vCPU did when it was last seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Computed.
    Computing,
    /// Waited for another vCPU.
    Waiting,
    /// Waited for another vCPU, and has looked in vain since a vCPU last made progress.
    InVain,
}

impl Kind {
    const ALL: [Self; KINDS] = [Self::Computing, Self::Waiting, Self::InVain];
}

/// A place within a stair; lower is nearer to the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Place(u64);

#[derive(Debug, Clone, Copy)]
struct Node {
    prev: u32,
    next: u32,
    place: Place,
}

/// The queue. Nodes `0..LISTS` are sentinels, a vCPU's node follows at `LISTS + id`.
#[derive(Debug)]
pub(crate) struct Queue {
    nodes: Vec<Node>,
    /// Non-empty stairs by kind: bit `stair % WINDOW`.
    occupied: [u128; KINDS],
    /// No queued vCPU stands below this stair, none at or above `floor + WINDOW`.
    floor: u64,
    next_place: u64,
    len: usize,
}

impl Queue {
    pub(crate) fn new() -> Self {
        let nodes = (0..LISTS as u32).map(|i| Node { prev: i, next: i, place: Place(0) }).collect();
        Self { nodes, occupied: [0; KINDS], floor: 0, next_place: 0, len: 0 }
    }

    /// Makes room for a vCPU of this id; the only call that allocates.
    pub(crate) fn admit(&mut self, vcpu: VcpuId) {
        let needed = LISTS + vcpu.index() + 1;
        if self.nodes.len() < needed {
            self.nodes.resize(needed, Node { prev: NONE, next: NONE, place: Place(0) });
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn contains(&self, vcpu: VcpuId) -> bool {
        self.nodes[node_of(vcpu)].next != NONE
    }

    /// Raises the lowest stair in use. vCPUs that are queued below it move up to it.
    pub(crate) fn raise_floor(&mut self, floor: u64) {
        while self.floor < floor {
            self.push_down(self.floor);
            self.floor += 1;
        }
    }

    /// Puts a vCPU behind all others of this stair and gives it a new place.
    pub(crate) fn push(&mut self, vcpu: VcpuId, stair: u64, kind: Kind) {
        let place = Place(self.next_place);
        self.next_place += 1;
        let sentinel = self.sentinel(stair, kind);
        self.link(vcpu, self.nodes[sentinel].prev as usize, place, stair, kind);
    }

    /// Puts a vCPU where its old place is.
    pub(crate) fn push_at(&mut self, vcpu: VcpuId, stair: u64, kind: Kind, place: Place) {
        let mut after = self.sentinel(stair, kind);
        for _ in 0..PLACE_STEPS {
            let next = self.nodes[after].next as usize;
            if next < LISTS || self.nodes[next].place > place {
                break;
            }
            after = next;
        }
        self.link(vcpu, after, place, stair, kind);
    }

    /// Puts a vCPU that looked in vain behind the others of its stair that did, with its old place.
    pub(crate) fn push_in_vain(&mut self, vcpu: VcpuId, stair: u64) {
        let (place, sentinel) = (self.place(vcpu), self.sentinel(stair, Kind::InVain));
        self.link(vcpu, self.nodes[sentinel].prev as usize, place, stair, Kind::InVain);
    }

    /// All that looked in vain may look again, before the others that wait.
    pub(crate) fn recall(&mut self) {
        while let Some((_, stair)) = self.head_of(Kind::InVain) {
            let (from, to) = (self.sentinel(stair, Kind::InVain), self.sentinel(stair, Kind::Waiting));
            let (first, last) = (self.nodes[from].next, self.nodes[from].prev);
            let others = self.nodes[to].next;
            (self.nodes[to].next, self.nodes[first as usize].prev) = (first, to as u32);
            (self.nodes[last as usize].next, self.nodes[others as usize].prev) = (others, last);
            (self.nodes[from].prev, self.nodes[from].next) = (from as u32, from as u32);
            self.occupied[Kind::InVain as usize] &= !bit(stair);
            self.occupied[Kind::Waiting as usize] |= bit(stair);
        }
    }

    /// Takes a queued vCPU out.
    pub(crate) fn remove(&mut self, vcpu: VcpuId) {
        let at = node_of(vcpu);
        let Node { prev, next, .. } = self.nodes[at];
        debug_assert_ne!(next, NONE, "only queued vCPUs are taken out");
        self.nodes[prev as usize].next = next;
        self.nodes[next as usize].prev = prev;
        if prev == next && (prev as usize) < LISTS {
            self.occupied[prev as usize / WINDOW as usize] &= !(1 << (u64::from(prev) % WINDOW));
        }
        (self.nodes[at].prev, self.nodes[at].next) = (NONE, NONE);
        self.len -= 1;
    }

    /// The place a vCPU has, or had when it was last queued.
    pub(crate) fn place(&self, vcpu: VcpuId) -> Place {
        self.nodes[node_of(vcpu)].place
    }

    /// The first of all, and its stair.
    pub(crate) fn head(&self) -> Option<(VcpuId, u64)> {
        let heads = Kind::ALL.map(|kind| self.head_of(kind));
        heads.into_iter().flatten().min_by_key(|&(vcpu, stair)| (stair, self.place(vcpu)))
    }

    /// The first of a kind, and its stair.
    pub(crate) fn head_of(&self, kind: Kind) -> Option<(VcpuId, u64)> {
        let bits = self.occupied[kind as usize];
        if bits == 0 {
            return None;
        }
        let ahead = bits.rotate_right((self.floor % WINDOW) as u32).trailing_zeros();
        let stair = self.floor + u64::from(ahead);
        let first = self.nodes[self.sentinel(stair, kind)].next;
        Some((VcpuId(first - LISTS as u32), stair))
    }

    /// Of a kind, the one that has stood longest on any stair up to this one, which is few above the lowest in use.
    pub(crate) fn oldest_of(&self, kind: Kind, highest: u64) -> Option<VcpuId> {
        let (_, lowest) = self.head_of(kind)?;
        let first_on = |stair| self.nodes[self.sentinel(stair, kind)].next as usize;
        let firsts = (lowest..=highest).map(first_on).filter(|&first| first >= LISTS);
        firsts.min_by_key(|&first| self.nodes[first].place).map(|first| VcpuId((first - LISTS) as u32))
    }

    /// The vCPU that stands two behind a queued vCPU, among those of its kind on its stair. [Asks for](prefetch) that
    /// one's node, so that the same question about the next vCPU does not wait for it.
    pub(crate) fn second_behind(&self, vcpu: VcpuId) -> Option<VcpuId> {
        let next = self.nodes[node_of(vcpu)].next as usize;
        let second = self.nodes[next].next;
        if next < LISTS || (second as usize) < LISTS {
            return None;
        }
        prefetch(&self.nodes[second as usize]);
        Some(VcpuId(second - LISTS as u32))
    }

    /// Moves all vCPUs on a stair behind those on the next one.
    pub(crate) fn push_down(&mut self, stair: u64) {
        for kind in Kind::ALL {
            let (from, to) = (self.sentinel(stair, kind), self.sentinel(stair + 1, kind));
            let (first, last) = (self.nodes[from].next, self.nodes[from].prev);
            if first as usize == from {
                continue;
            }
            let tail = self.nodes[to].prev;
            self.nodes[tail as usize].next = first;
            self.nodes[first as usize].prev = tail;
            self.nodes[last as usize].next = to as u32;
            self.nodes[to].prev = last;
            (self.nodes[from].prev, self.nodes[from].next) = (from as u32, from as u32);
            self.occupied[kind as usize] &= !bit(stair);
            self.occupied[kind as usize] |= bit(stair + 1);
        }
    }

    fn link(&mut self, vcpu: VcpuId, after: usize, place: Place, stair: u64, kind: Kind) {
        debug_assert!(!self.contains(vcpu) && (self.floor..self.floor + WINDOW).contains(&stair));
        let at = node_of(vcpu);
        let next = self.nodes[after].next;
        self.nodes[at] = Node { prev: after as u32, next, place };
        self.nodes[after].next = at as u32;
        self.nodes[next as usize].prev = at as u32;
        self.occupied[kind as usize] |= bit(stair);
        self.len += 1;
    }

    fn sentinel(&self, stair: u64, kind: Kind) -> usize {
        kind as usize * WINDOW as usize + (stair % WINDOW) as usize
    }
}

fn node_of(vcpu: VcpuId) -> usize {
    LISTS + vcpu.index()
}

fn bit(stair: u64) -> u128 {
    1 << (stair % WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn queue(vcpus: u32) -> Queue {
        let mut queue = Queue::new();
        (0..vcpus).for_each(|v| queue.admit(VcpuId(v)));
        queue
    }

    fn drain(queue: &mut Queue) -> Vec<u32> {
        std::iter::from_fn(|| {
            let (vcpu, _) = queue.head()?;
            queue.remove(vcpu);
            Some(vcpu.0)
        })
        .collect()
    }

    #[test]
    fn lower_stairs_come_first_and_within_a_stair_first_come_first_served() {
        let mut q = queue(4);
        q.push(VcpuId(0), 5, Kind::Computing);
        q.push(VcpuId(1), 3, Kind::Waiting);
        q.push(VcpuId(2), 3, Kind::Computing);
        q.push(VcpuId(3), 3, Kind::Waiting);
        assert_eq!(drain(&mut q), [1, 2, 3, 0]);
    }

    #[test]
    fn who_comes_back_to_its_place_stands_where_it_stood() {
        let mut q = queue(3);
        (0..3).for_each(|v| q.push(VcpuId(v), 0, Kind::Waiting));
        q.remove(VcpuId(1));
        let place = q.place(VcpuId(1));
        q.push_at(VcpuId(1), 0, Kind::Waiting, place);
        assert_eq!(drain(&mut q), [0, 1, 2]);
    }

    #[test]
    fn a_stair_pushed_down_stands_behind_the_next_one() {
        let mut q = queue(3);
        q.push(VcpuId(0), 0, Kind::Computing);
        q.push(VcpuId(1), 0, Kind::Computing);
        q.push(VcpuId(2), 1, Kind::Computing);
        q.push_down(0);
        q.remove(VcpuId(1));
        assert_eq!(q.head(), Some((VcpuId(2), 1)));
        assert_eq!(q.len(), 2);
    }

    #[test]
    fn the_oldest_of_a_kind_is_found_on_any_stair_up_to_the_highest_asked_for() {
        let mut q = queue(4);
        q.push(VcpuId(0), 4, Kind::Waiting);
        q.push(VcpuId(1), 5, Kind::Computing);
        q.push(VcpuId(2), 3, Kind::Waiting);
        q.push(VcpuId(3), 2, Kind::Computing);
        assert_eq!(q.oldest_of(Kind::Waiting, 5), Some(VcpuId(0)));
        assert_eq!(q.oldest_of(Kind::Waiting, 3), Some(VcpuId(2)));
        assert_eq!(q.oldest_of(Kind::Waiting, 2), None);
    }

    #[test]
    fn two_behind_stands_only_who_is_of_the_same_kind_on_the_same_stair() {
        let mut q = queue(5);
        q.push(VcpuId(0), 0, Kind::Computing);
        q.push(VcpuId(1), 0, Kind::Waiting);
        q.push(VcpuId(2), 0, Kind::Computing);
        q.push(VcpuId(3), 1, Kind::Computing);
        assert_eq!(q.second_behind(VcpuId(0)), None, "the third of the kind is on the next stair");
        q.push(VcpuId(4), 0, Kind::Computing);
        assert_eq!(q.second_behind(VcpuId(0)), Some(VcpuId(4)));
        assert_eq!([1, 2, 3, 4].map(|v| q.second_behind(VcpuId(v))), [None; 4]);
    }

    #[test]
    fn who_looked_in_vain_keeps_its_place_and_looks_again_before_the_others_once_recalled() {
        let mut q = queue(4);
        (0..4).for_each(|v| q.push(VcpuId(v), 0, Kind::Waiting));
        for v in [0, 1] {
            q.remove(VcpuId(v));
            q.push_in_vain(VcpuId(v), 0);
        }
        assert_eq!(q.oldest_of(Kind::Waiting, 0), Some(VcpuId(2)));
        assert_eq!(q.head(), Some((VcpuId(0), 0)), "its turn by the staircase comes as if it had not looked");
        q.recall();
        assert_eq!(q.oldest_of(Kind::InVain, 0), None);
        assert_eq!(drain(&mut q), [0, 1, 2, 3]);
        q.recall();
        assert_eq!(q.len(), 0);
    }

    #[test]
    fn the_window_moves_with_the_floor() {
        let mut q = queue(2);
        q.push(VcpuId(0), WINDOW - 1, Kind::Computing);
        q.raise_floor(WINDOW - 1);
        q.push(VcpuId(1), WINDOW + 5, Kind::Computing);
        assert_eq!(q.head(), Some((VcpuId(0), WINDOW - 1)));
        q.remove(VcpuId(0));
        assert_eq!(q.head(), Some((VcpuId(1), WINDOW + 5)));
    }

    proptest! {
        #[test]
        fn orders_like_a_sorted_map(steps in prop::collection::vec((0u32..12, 0u64..40, any::<bool>()), 0..200)) {
            let mut q = queue(12);
            let mut model = std::collections::BTreeMap::new();
            let mut places = 0u64;
            for (vcpu, stair, waiting) in steps {
                let id = VcpuId(vcpu);
                if q.contains(id) {
                    q.remove(id);
                    model.retain(|_, v| *v != vcpu);
                } else {
                    q.push(id, stair, if waiting { Kind::Waiting } else { Kind::Computing });
                    model.insert((stair, places), vcpu);
                    places += 1;
                }
                let head = model.iter().next().map(|((stair, _), v)| (VcpuId(*v), *stair));
                prop_assert_eq!(q.head(), head);
                prop_assert_eq!(q.len(), model.len());
            }
        }
    }
}
