//! The run queue: an endless staircase of FIFO lists, of which a window of [`WINDOW`] stairs is in use at any time.
//!
//! Order: lowest stair first, and within a stair the order of places. A place is given when a vCPU is put at the tail;
//! one that comes back may take its old place again. There are three lists: vCPUs that computed when they were last
//! seen, vCPUs that waited for another, and vCPUs that waited and looked in vain. So the first of each kind is found in
//! constant time. Seen together they are one queue.
//!
//! All lists are circular, with a sentinel each, so that a node can leave without knowing which list it is in, and a
//! whole list can be moved by relinking its ends. A vCPU is in one list of one queue at most, so the queues of a policy
//! share the vCPUs' [`Nodes`]; each queue has its own sentinels.

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

/// Every vCPU's links to its neighbours in the queue that it is in.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    vcpus: Vec<Node>,
    next_place: u64,
}

impl Nodes {
    /// Makes room for a vCPU of this id; the only call that allocates.
    pub(crate) fn admit(&mut self, vcpu: VcpuId) {
        if self.vcpus.len() <= vcpu.index() {
            self.vcpus.resize(vcpu.index() + 1, Node { prev: NONE, next: NONE, place: Place(0) });
        }
    }

    /// Whether a vCPU is in a queue.
    pub(crate) fn contains(&self, vcpu: VcpuId) -> bool {
        self.vcpus.get(vcpu.index()).is_some_and(|node| node.next != NONE)
    }

    /// The place a vCPU has, or had when it was last queued.
    pub(crate) fn place(&self, vcpu: VcpuId) -> Place {
        self.vcpus[vcpu.index()].place
    }

    fn new_place(&mut self) -> Place {
        self.next_place += 1;
        Place(self.next_place)
    }
}

/// A queue. In links, numbers below `LISTS` are its sentinels; a vCPU's is `LISTS + id`.
#[derive(Debug)]
pub(crate) struct Queue {
    sentinels: Box<[Node]>,
    /// Non-empty stairs by kind: bit `stair % WINDOW`.
    occupied: [u128; KINDS],
    /// No queued vCPU stands below this stair, none at or above `floor + WINDOW`.
    floor: u64,
    len: usize,
}

impl Queue {
    pub(crate) fn new() -> Self {
        let sentinels = (0..LISTS as u32).map(|i| Node { prev: i, next: i, place: Place(0) }).collect();
        Self { sentinels, occupied: [0; KINDS], floor: 0, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The same queue, empty as it is, with this stair as the lowest in use.
    pub(crate) fn with_floor(self, floor: u64) -> Self {
        debug_assert_eq!(self.len, 0, "queued vCPUs have to move up");
        Self { floor, ..self }
    }

    /// Raises the lowest stair in use, however far, in at most two windows' steps. vCPUs that are queued below it move
    /// up to it.
    pub(crate) fn raise_floor(&mut self, nodes: &mut Nodes, floor: u64) {
        if let Some(beyond) = floor.checked_sub(self.floor + WINDOW) {
            (0..WINDOW).for_each(|_| self.step(nodes));
            // All that are queued stand on the floor now, and its list is the same whole windows further down.
            self.floor += beyond / WINDOW * WINDOW;
        }
        while self.floor < floor {
            self.step(nodes);
        }
    }

    fn step(&mut self, nodes: &mut Nodes) {
        self.push_down(nodes, self.floor);
        self.floor += 1;
    }

    /// Puts a vCPU behind all others of this stair and gives it a new place.
    pub(crate) fn push(&mut self, nodes: &mut Nodes, vcpu: VcpuId, stair: u64, kind: Kind) {
        let place = nodes.new_place();
        let last = self.sentinels[list(stair, kind)].prev;
        self.link(nodes, vcpu, last, place, stair, kind);
    }

    /// Puts a vCPU where its old place is.
    pub(crate) fn push_at(&mut self, nodes: &mut Nodes, vcpu: VcpuId, stair: u64, kind: Kind) {
        let place = nodes.place(vcpu);
        let mut after = list(stair, kind) as u32;
        for _ in 0..PLACE_STEPS {
            let next = self.at(nodes, after).next;
            if is_sentinel(next) || self.at(nodes, next).place > place {
                break;
            }
            after = next;
        }
        self.link(nodes, vcpu, after, place, stair, kind);
    }

    /// Puts a vCPU that looked in vain behind the others of its stair that did, with its old place.
    pub(crate) fn push_in_vain(&mut self, nodes: &mut Nodes, vcpu: VcpuId, stair: u64) {
        let (place, last) = (nodes.place(vcpu), self.sentinels[list(stair, Kind::InVain)].prev);
        self.link(nodes, vcpu, last, place, stair, Kind::InVain);
    }

    /// All that looked in vain may look again, before the others that wait.
    pub(crate) fn recall(&mut self, nodes: &mut Nodes) {
        while let Some((_, stair)) = self.head_of(Kind::InVain) {
            let (from, to) = (list(stair, Kind::InVain), list(stair, Kind::Waiting));
            let Node { next: first, prev: last, .. } = self.sentinels[from];
            let others = self.sentinels[to].next;
            self.sentinels[to].next = first;
            self.at_mut(nodes, first).prev = to as u32;
            self.at_mut(nodes, last).next = others;
            self.at_mut(nodes, others).prev = last;
            (self.sentinels[from].prev, self.sentinels[from].next) = (from as u32, from as u32);
            self.occupied[Kind::InVain as usize] &= !bit(stair);
            self.occupied[Kind::Waiting as usize] |= bit(stair);
        }
    }

    /// Takes a vCPU out that is in this queue.
    pub(crate) fn remove(&mut self, nodes: &mut Nodes, vcpu: VcpuId) {
        let Node { prev, next, .. } = nodes.vcpus[vcpu.index()];
        debug_assert_ne!(next, NONE, "only queued vCPUs are taken out");
        self.at_mut(nodes, prev).next = next;
        self.at_mut(nodes, next).prev = prev;
        if prev == next && is_sentinel(prev) {
            self.occupied[prev as usize / WINDOW as usize] &= !(1 << (u64::from(prev) % WINDOW));
        }
        let node = &mut nodes.vcpus[vcpu.index()];
        (node.prev, node.next) = (NONE, NONE);
        self.len -= 1;
    }

    /// The first of all, and its stair.
    pub(crate) fn head(&self, nodes: &Nodes) -> Option<(VcpuId, u64)> {
        let heads = Kind::ALL.map(|kind| self.head_of(kind));
        heads.into_iter().flatten().min_by_key(|&(vcpu, stair)| (stair, nodes.place(vcpu)))
    }

    /// The lowest stair on which a vCPU is queued.
    pub(crate) fn lowest(&self) -> Option<u64> {
        let bits = self.occupied.iter().fold(0, |all, bits| all | bits);
        (bits != 0).then(|| self.floor + u64::from(bits.rotate_right((self.floor % WINDOW) as u32).trailing_zeros()))
    }

    /// The first of a kind, and its stair.
    pub(crate) fn head_of(&self, kind: Kind) -> Option<(VcpuId, u64)> {
        let bits = self.occupied[kind as usize];
        if bits == 0 {
            return None;
        }
        let ahead = bits.rotate_right((self.floor % WINDOW) as u32).trailing_zeros();
        let stair = self.floor + u64::from(ahead);
        let first = self.sentinels[list(stair, kind)].next;
        Some((vcpu_of(first), stair))
    }

    /// Of a kind, the one that has stood longest on any stair up to this one, which is mostly few above the lowest in
    /// use.
    pub(crate) fn oldest_of(&self, nodes: &Nodes, kind: Kind, highest: u64) -> Option<VcpuId> {
        let (_, lowest) = self.head_of(kind)?;
        let first_on = |stair| self.sentinels[list(stair, kind)].next;
        let firsts = (lowest..=highest.min(self.floor + WINDOW - 1))
            .map(first_on)
            .filter(|&first| !is_sentinel(first))
            .map(vcpu_of);
        firsts.min_by_key(|&first| nodes.place(first))
    }

    /// The vCPU that stands two behind a queued vCPU, among those of its kind on its stair. [Asks for](prefetch) that
    /// one's node, so that the same question about the next vCPU does not wait for it.
    pub(crate) fn second_behind(&self, nodes: &Nodes, vcpu: VcpuId) -> Option<VcpuId> {
        let next = nodes.vcpus[vcpu.index()].next;
        if is_sentinel(next) {
            return None;
        }
        let second = self.at(nodes, next).next;
        if is_sentinel(second) {
            return None;
        }
        prefetch(self.at(nodes, second));
        Some(vcpu_of(second))
    }

    /// Moves all vCPUs on a stair behind those on the next one.
    pub(crate) fn push_down(&mut self, nodes: &mut Nodes, stair: u64) {
        for kind in Kind::ALL {
            let (from, to) = (list(stair, kind), list(stair + 1, kind));
            let Node { next: first, prev: last, .. } = self.sentinels[from];
            if first as usize == from {
                continue;
            }
            let tail = self.sentinels[to].prev;
            self.at_mut(nodes, tail).next = first;
            self.at_mut(nodes, first).prev = tail;
            self.at_mut(nodes, last).next = to as u32;
            self.sentinels[to].prev = last;
            (self.sentinels[from].prev, self.sentinels[from].next) = (from as u32, from as u32);
            self.occupied[kind as usize] &= !bit(stair);
            self.occupied[kind as usize] |= bit(stair + 1);
        }
    }

    fn link(&mut self, nodes: &mut Nodes, vcpu: VcpuId, after: u32, place: Place, stair: u64, kind: Kind) {
        debug_assert!(!nodes.contains(vcpu) && (self.floor..self.floor + WINDOW).contains(&stair));
        let at = LISTS as u32 + vcpu.0;
        let next = self.at(nodes, after).next;
        nodes.vcpus[vcpu.index()] = Node { prev: after, next, place };
        self.at_mut(nodes, after).next = at;
        self.at_mut(nodes, next).prev = at;
        self.occupied[kind as usize] |= bit(stair);
        self.len += 1;
    }

    fn at<'a>(&'a self, nodes: &'a Nodes, link: u32) -> &'a Node {
        if is_sentinel(link) { &self.sentinels[link as usize] } else { &nodes.vcpus[vcpu_of(link).index()] }
    }

    fn at_mut<'a>(&'a mut self, nodes: &'a mut Nodes, link: u32) -> &'a mut Node {
        if is_sentinel(link) { &mut self.sentinels[link as usize] } else { &mut nodes.vcpus[vcpu_of(link).index()] }
    }
}

fn is_sentinel(link: u32) -> bool {
    (link as usize) < LISTS
}

fn vcpu_of(link: u32) -> VcpuId {
    VcpuId(link - LISTS as u32)
}

/// The list of a kind on a stair, by its sentinel.
fn list(stair: u64, kind: Kind) -> usize {
    kind as usize * WINDOW as usize + (stair % WINDOW) as usize
}

fn bit(stair: u64) -> u128 {
    1 << (stair % WINDOW)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn queue(vcpus: u32) -> (Queue, Nodes) {
        let mut nodes = Nodes::default();
        (0..vcpus).for_each(|v| nodes.admit(VcpuId(v)));
        (Queue::new(), nodes)
    }

    fn drain(queue: &mut Queue, nodes: &mut Nodes) -> Vec<u32> {
        std::iter::from_fn(|| {
            let (vcpu, _) = queue.head(nodes)?;
            queue.remove(nodes, vcpu);
            Some(vcpu.0)
        })
        .collect()
    }

    #[test]
    fn lower_stairs_come_first_and_within_a_stair_first_come_first_served() {
        let (mut q, mut n) = queue(4);
        q.push(&mut n, VcpuId(0), 5, Kind::Computing);
        q.push(&mut n, VcpuId(1), 3, Kind::Waiting);
        q.push(&mut n, VcpuId(2), 3, Kind::Computing);
        q.push(&mut n, VcpuId(3), 3, Kind::Waiting);
        assert_eq!(drain(&mut q, &mut n), [1, 2, 3, 0]);
    }

    #[test]
    fn who_comes_back_to_its_place_stands_where_it_stood() {
        let (mut q, mut n) = queue(3);
        (0..3).for_each(|v| q.push(&mut n, VcpuId(v), 0, Kind::Waiting));
        q.remove(&mut n, VcpuId(1));
        q.push_at(&mut n, VcpuId(1), 0, Kind::Waiting);
        assert_eq!(drain(&mut q, &mut n), [0, 1, 2]);
    }

    #[test]
    fn a_stair_pushed_down_stands_behind_the_next_one() {
        let (mut q, mut n) = queue(3);
        q.push(&mut n, VcpuId(0), 0, Kind::Computing);
        q.push(&mut n, VcpuId(1), 0, Kind::Computing);
        q.push(&mut n, VcpuId(2), 1, Kind::Computing);
        q.push_down(&mut n, 0);
        q.remove(&mut n, VcpuId(1));
        assert_eq!(q.head(&n), Some((VcpuId(2), 1)));
        assert_eq!(q.len(), 2);
    }

    #[test]
    fn the_oldest_of_a_kind_is_found_on_any_stair_up_to_the_highest_asked_for() {
        let (mut q, mut n) = queue(4);
        q.push(&mut n, VcpuId(0), 4, Kind::Waiting);
        q.push(&mut n, VcpuId(1), 5, Kind::Computing);
        q.push(&mut n, VcpuId(2), 3, Kind::Waiting);
        q.push(&mut n, VcpuId(3), 2, Kind::Computing);
        assert_eq!(q.oldest_of(&n, Kind::Waiting, 5), Some(VcpuId(0)));
        assert_eq!(q.oldest_of(&n, Kind::Waiting, 3), Some(VcpuId(2)));
        assert_eq!(q.oldest_of(&n, Kind::Waiting, 2), None);
    }

    #[test]
    fn two_behind_stands_only_who_is_of_the_same_kind_on_the_same_stair() {
        let (mut q, mut n) = queue(5);
        q.push(&mut n, VcpuId(0), 0, Kind::Computing);
        q.push(&mut n, VcpuId(1), 0, Kind::Waiting);
        q.push(&mut n, VcpuId(2), 0, Kind::Computing);
        q.push(&mut n, VcpuId(3), 1, Kind::Computing);
        assert_eq!(q.second_behind(&n, VcpuId(0)), None, "the third of the kind is on the next stair");
        q.push(&mut n, VcpuId(4), 0, Kind::Computing);
        assert_eq!(q.second_behind(&n, VcpuId(0)), Some(VcpuId(4)));
        assert_eq!([1, 2, 3, 4].map(|v| q.second_behind(&n, VcpuId(v))), [None; 4]);
    }

    #[test]
    fn who_looked_in_vain_keeps_its_place_and_looks_again_before_the_others_once_recalled() {
        let (mut q, mut n) = queue(4);
        (0..4).for_each(|v| q.push(&mut n, VcpuId(v), 0, Kind::Waiting));
        for v in [0, 1] {
            q.remove(&mut n, VcpuId(v));
            q.push_in_vain(&mut n, VcpuId(v), 0);
        }
        assert_eq!(q.oldest_of(&n, Kind::Waiting, 0), Some(VcpuId(2)));
        assert_eq!(q.head(&n), Some((VcpuId(0), 0)), "its turn by the staircase comes as if it had not looked");
        q.recall(&mut n);
        assert_eq!(q.oldest_of(&n, Kind::InVain, 0), None);
        assert_eq!(drain(&mut q, &mut n), [0, 1, 2, 3]);
        q.recall(&mut n);
        assert_eq!(q.len(), 0);
    }

    #[test]
    fn the_window_moves_with_the_floor() {
        let (mut q, mut n) = queue(2);
        q.push(&mut n, VcpuId(0), WINDOW - 1, Kind::Computing);
        q.raise_floor(&mut n, WINDOW - 1);
        q.push(&mut n, VcpuId(1), WINDOW + 5, Kind::Computing);
        assert_eq!(q.head(&n), Some((VcpuId(0), WINDOW - 1)));
        q.remove(&mut n, VcpuId(0));
        assert_eq!(q.head(&n), Some((VcpuId(1), WINDOW + 5)));
    }

    #[test]
    fn a_floor_far_below_is_reached_at_once_and_as_if_stair_by_stair() {
        for far in [2 * WINDOW, 2 * WINDOW + 7, (1 << 40) - 1] {
            let (mut q, mut n) = queue(3);
            [9, 3, WINDOW - 1].into_iter().zip(0..).for_each(|(s, v)| q.push(&mut n, VcpuId(v), s, Kind::Computing));
            q.raise_floor(&mut n, far);
            assert_eq!(q.head(&n), Some((VcpuId(2), far)));
            assert_eq!(drain(&mut q, &mut n), [2, 0, 1], "those that are pushed down stand behind those already there");
        }
    }

    proptest! {
        #[test]
        fn orders_like_a_sorted_map(steps in prop::collection::vec((0u32..12, 0u64..40, any::<bool>()), 0..200)) {
            let (mut q, mut n) = queue(12);
            let mut model = std::collections::BTreeMap::new();
            let mut places = 0u64;
            for (vcpu, stair, waiting) in steps {
                let id = VcpuId(vcpu);
                if n.contains(id) {
                    q.remove(&mut n, id);
                    model.retain(|_, v| *v != vcpu);
                } else {
                    q.push(&mut n, id, stair, if waiting { Kind::Waiting } else { Kind::Computing });
                    model.insert((stair, places), vcpu);
                    places += 1;
                }
                let head = model.iter().next().map(|((stair, _), v)| (VcpuId(*v), *stair));
                prop_assert_eq!(q.head(&n), head);
                prop_assert_eq!(q.lowest(), head.map(|(_, stair)| stair));
                prop_assert_eq!(q.len(), model.len());
            }
        }
    }
}
