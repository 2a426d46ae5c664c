//! What shards let others know.
//!
//! Each field is written by the holder of its shard's lock and read by anyone, relaxed: a reader that is late takes
//! nothing where there is nothing, or looks once more than it need. Idle slots and vCPUs to
//! spare must not miss each other: see [`Board::idles`].

use super::LAG;
use super::plan::ShardPlan;
use crate::ids::Shard;
use crate::policy::{Front, Progress, Spare};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::time::Nanos;

/// Shards in a word of a [`Mask`].
const BITS: usize = 64;

/// Added to the stair of a vCPU that came from another shard and has not run since.
const CAME: u64 = 1 << 63;

/// What all shards let others know.
#[derive(Debug)]
pub struct Board {
    lines: Box<[Line]>,
    /// Shards with a vCPU to spare.
    spare: Mask,
    /// Shards with an idle slot.
    idle: Mask,
    /// Shards in which a slot may be free that their policies take for busy.
    left: Mask,
    /// The furthest that a contended shard has got.
    front: AtomicU64,
    /// The shortest quota of all (unit: ns); 0: quotas are fixed.
    quota: AtomicU64,
}

/// What a shard has taken over from others. Kept with its lock held.
#[derive(Debug, Default)]
pub struct Known {
    contended: bool,
    quota: Nanos,
    /// vCPUs wait, here or elsewhere.
    waits: bool,
}

/// What one shard lets others know. Two cache lines, since neighbours are fetched in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line {
    /// The stair of the vCPU to spare, and [`CAME`]; without one, `u64::MAX`.
    head: AtomicU64,
    idle: AtomicU32,
    residents: AtomicU32,
    slots: u32,
    /// As in [`Progress`] (unit: ns).
    quota: AtomicU64,
}

impl Board {
    /// Of shards that have no vCPU yet: all slots idle.
    pub fn new(plan: &ShardPlan) -> Self {
        let line = |shard| {
            let slots = plan.slots(shard);
            let slots = u32::from(slots.end.0 - slots.start.0);
            Line { head: AtomicU64::new(u64::MAX), idle: AtomicU32::new(slots), slots, ..Line::default() }
        };
        let lines: Box<[Line]> = plan.shards().map(line).collect();
        let [spare, idle, left] = [(); 3].map(|()| Mask::new(lines.len()));
        plan.shards().for_each(|shard| idle.set(shard, true));
        Self { spare, idle, left, lines, front: AtomicU64::new(0), quota: AtomicU64::new(0) }
    }

    /// Whether there is anything to publish, or to look at.
    pub fn is_needed(&self) -> bool {
        self.lines.len() > 1
    }

    /// A shard tells what has become of it.
    pub fn publish(&self, shard: Shard, spare: Option<Spare>, progress: Progress) {
        let line = &self.lines[shard.index()];
        let head = spare.map_or(u64::MAX, |spare| spare.stair.min(CAME - 2) + if spare.came { CAME } else { 0 });
        if line.head.load(Ordering::Relaxed) != head {
            line.head.store(head, Ordering::Relaxed);
        }
        self.spare.set(shard, spare.is_some());
        if progress.contended && self.front.load(Ordering::Relaxed) < progress.stair {
            self.front.fetch_max(progress.stair, Ordering::Relaxed);
        }
    }

    /// What a shard has to take over, when it has got so far: that it fell behind while it had slots to spare, or
    /// that quotas have changed.
    pub fn news(&self, shard: Shard, known: &mut Known, progress: Progress) -> Option<Front> {
        self.wants(shard, progress.quota);
        let quota = Nanos(self.quota.load(Ordering::Relaxed));
        let had_spare = progress.contended && !known.contended;
        let front = if had_spare { self.front.load(Ordering::Relaxed) } else { 0 }.max(progress.stair);
        let waits = progress.contended || self.has_spare();
        let is_new = front > progress.stair || quota != known.quota || waits != known.waits;
        *known = Known { contended: progress.contended, quota, waits };
        is_new.then_some(Front { stair: front, quota, contended: waits })
    }

    /// A shard's vCPUs can have quotas this long.
    fn wants(&self, shard: Shard, quota: Nanos) {
        let own = &self.lines[shard.index()].quota;
        if own.load(Ordering::Relaxed) == quota.0 {
            return;
        }
        own.store(quota.0, Ordering::Relaxed);
        let shortest = || {
            let all = self.lines.iter().map(|line| line.quota.load(Ordering::Relaxed));
            all.filter(|&quota| quota > 0).min().unwrap_or(0)
        };
        // The last swap acquires what all threads wrote before theirs; its thread looks again and sees that.
        loop {
            let quota = shortest();
            self.quota.swap(quota, Ordering::AcqRel);
            if shortest() == quota {
                break;
            }
        }
    }

    /// A slot of this shard begins to idle, or ceases to. It says that it idles and then looks for a vCPU; a shard says
    /// that it has one and then looks for an idle slot. One of the two sees the other.
    pub fn idles(&self, shard: Shard, idles: bool) {
        let idle = &self.lines[shard.index()].idle;
        let before = idle.load(Ordering::Relaxed);
        let after = if idles { before + 1 } else { before - 1 };
        idle.store(after, Ordering::Relaxed);
        self.idle.set(shard, after > 0);
    }

    /// A slot of this shard was left without a word to its policy, or no slot may be any more. Not under a lock: the
    /// thread that left the slot says so and then looks for [a vCPU to spare](Self::has_spare), and a thread that found
    /// no idle slot for one unsays it and then looks at the slots. One of the two sees the other.
    pub fn leaves(&self, shard: Shard, left: bool) {
        self.left.set(shard, left);
    }

    /// The nearest other shard in which a slot may be free that its policy takes for busy.
    pub fn nearest_left(&self, shard: Shard) -> Option<Shard> {
        self.left.nearest(shard)
    }

    /// Whether any shard has a vCPU to spare.
    pub fn has_spare(&self) -> bool {
        self.spare.is_any()
    }

    /// The nearest other shard with a vCPU to spare.
    pub fn nearest_spare(&self, shard: Shard) -> Option<Shard> {
        self.spare.nearest(shard)
    }

    /// The nearest other shard with an idle slot.
    pub fn nearest_idle(&self, shard: Shard) -> Option<Shard> {
        self.idle.nearest(shard)
    }

    /// Where the next vCPU of a shard stands, if it may leave.
    pub fn head(&self, shard: Shard) -> Option<u64> {
        let head = self.lines[shard.index()].head.load(Ordering::Relaxed);
        (head != u64::MAX).then_some(head & !CAME)
    }

    /// As [`head`](Self::head), unless that vCPU came from another shard and has not run since: shards would take it
    /// from each other for ever.
    pub fn settled(&self, shard: Shard) -> Option<u64> {
        Some(self.lines[shard.index()].head.load(Ordering::Relaxed)).filter(|head| head & CAME == 0)
    }

    /// The furthest stair from which a vCPU may be let past those that wait in a shard.
    pub fn reach(&self, shard: Shard) -> u64 {
        self.head(shard).map_or(u64::MAX, |head| head.saturating_add(LAG))
    }

    /// One more vCPU is at home in this shard, or one fewer.
    pub fn resides(&self, shard: Shard, one_more: bool) {
        let residents = &self.lines[shard.index()].residents;
        match one_more {
            true => residents.fetch_add(1, Ordering::Relaxed),
            false => residents.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Whether a vCPU may move from its shard to this one without making this one the fuller.
    pub fn has_room(&self, from: Shard, to: Shard) -> bool {
        let load = |shard: Shard, more: u32| {
            let line = &self.lines[shard.index()];
            (u64::from(line.residents.load(Ordering::Relaxed) + more), u64::from(line.slots))
        };
        let ((here, slots_here), (there, slots_there)) = (load(from, 0), load(to, 1));
        there * slots_here <= (here + 2) * slots_there
    }

    /// The shard where a new vCPU goes: that of the one before, until it has a vCPU for each of its slots more than the
    /// emptiest. So the vCPUs of a VM stay together, and VMs spread.
    pub fn roomiest(&self, before: Shard) -> Shard {
        let load = |shard: usize| {
            let line = &self.lines[shard];
            f64::from(line.residents.load(Ordering::Relaxed)) / f64::from(line.slots)
        };
        let emptiest = (0..self.lines.len()).min_by(|&a, &b| load(a).total_cmp(&load(b))).unwrap_or(0);
        if load(before.index()) < load(emptiest) + 1.0 { before } else { Shard(emptiest as u16) }
    }
}

/// A set of shards.
#[derive(Debug)]
struct Mask(Box<[AtomicU64]>);

impl Mask {
    fn new(shards: usize) -> Self {
        Self((0..shards.div_ceil(BITS)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Of spare vCPUs and idle slots only the holder of the shard's lock changes a bit. What the thread looks at next
    /// is not older than that.
    fn set(&self, shard: Shard, is: bool) {
        let (word, bit) = (&self.0[shard.index() / BITS], 1 << (shard.index() % BITS));
        if (word.load(Ordering::Relaxed) & bit != 0) != is {
            match is {
                true => word.fetch_or(bit, Ordering::Relaxed),
                false => word.fetch_and(!bit, Ordering::Relaxed),
            };
            fence(Ordering::SeqCst);
        }
    }

    /// Whether it has a member.
    fn is_any(&self) -> bool {
        self.0.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// The member nearest to this one by number, but not itself. It looks at a word for each 64 shards.
    fn nearest(&self, to: Shard) -> Option<Shard> {
        let (home, at) = (to.index() / BITS, to.index() % BITS);
        let distance = |shard: &usize| shard.abs_diff(to.index());
        let words = (0..self.0.len()).filter_map(|word| {
            let bits = self.0[word].load(Ordering::Relaxed);
            let bits = if word == home { bits & !(1 << at) } else { bits };
            let (below, above) = match word.cmp(&home) {
                std::cmp::Ordering::Less => (bits, 0),
                std::cmp::Ordering::Equal => (bits & ((1 << at) - 1), bits & !((1 << at) - 1)),
                std::cmp::Ordering::Greater => (0, bits),
            };
            let below = (below != 0).then(|| word * BITS + (BITS - 1 - below.leading_zeros() as usize));
            let above = (above != 0).then(|| word * BITS + above.trailing_zeros() as usize);
            below.into_iter().chain(above).min_by_key(distance)
        });
        words.min_by_key(distance).map(|shard| Shard(shard as u16))
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::ids::VcpuId;
    use proptest::prelude::*;
    use std::num::NonZeroUsize;

    fn board(shards: usize) -> Board {
        Board::new(&ShardPlan::new(shards, NonZeroUsize::MIN, &crate::Topology::default()))
    }

    proptest! {
        #[test]
        fn the_nearest_member_is_found(members in prop::collection::btree_set(0..200usize, 0..20), from in 0..200usize) {
            let mask = Mask::new(200);
            members.iter().for_each(|&shard| mask.set(Shard(shard as u16), true));
            let nearest = mask.nearest(Shard(from as u16)).map(Shard::index);
            let distance = |shard: usize| shard.abs_diff(from);
            let others = members.iter().copied().filter(|&shard| shard != from);
            prop_assert_eq!(nearest.map(distance), others.map(distance).min());
            prop_assert!(nearest.is_none_or(|shard| members.contains(&shard)));
        }
    }

    #[test]
    fn a_shard_tells_of_a_vcpu_to_spare_and_of_idle_slots() {
        let (board, shard) = (board(4), Shard(1));
        assert_eq!((board.nearest_spare(Shard(3)), board.nearest_idle(Shard(3))), (None, Some(Shard(2))));
        (0..4).for_each(|shard| board.idles(Shard(shard), false));
        let spare = Spare { vcpu: VcpuId(7), stair: 12, came: false };
        board.publish(shard, Some(spare), Progress { stair: 11, contended: true, quota: Nanos(6) });
        board.idles(shard, true);
        assert_eq!((board.nearest_spare(Shard(3)), board.nearest_idle(Shard(3))), (Some(shard), Some(shard)));
        assert_eq!(board.head(shard), Some(12));
        board.publish(shard, Some(Spare { came: true, ..spare }), Progress::default());
        assert_eq!((board.head(shard), board.settled(shard)), (Some(12), None));
        board.publish(shard, None, Progress { stair: 20, ..Progress::default() });
        board.idles(shard, false);
        assert_eq!((board.nearest_spare(Shard(3)), board.nearest_idle(Shard(3))), (None, None));
        assert_eq!(board.head(shard), None);
    }

    #[test]
    fn a_shard_takes_over_the_front_when_vcpus_begin_to_wait_and_the_shortest_quota_at_once() {
        let (board, quota) = (board(2), Nanos);
        let mut known = [(); 2].map(|()| Known::default());
        let mut tells = |shard: u16, progress: Progress| {
            let news = board.news(Shard(shard), &mut known[usize::from(shard)], progress);
            board.publish(Shard(shard), None, progress);
            news
        };
        let front = |stair, ms, contended| Some(Front { stair, quota: quota(ms), contended });
        let behind = Progress { stair: 3, contended: false, quota: quota(6) };
        let ahead = Progress { stair: 9, contended: true, quota: quota(4) };
        assert_eq!(tells(0, behind), front(3, 6, false));
        assert_eq!(tells(1, ahead), front(9, 4, true));
        assert_eq!(tells(0, behind), front(3, 4, false));
        let waits = Progress { contended: true, ..behind };
        assert_eq!(tells(0, waits), front(9, 4, true));
        assert_eq!((tells(0, waits), tells(1, ahead)), (None, None));
        assert_eq!(tells(1, Progress { quota: quota(6), ..ahead }), front(9, 6, true));
    }

    #[test]
    fn new_vcpus_stay_together_until_their_shard_is_a_vcpu_for_each_slot_fuller() {
        let plan = ShardPlan::new(4, NonZeroUsize::new(2).unwrap(), &crate::Topology::default());
        let board = Board::new(&plan);
        let mut shard = Shard(0);
        let shards: Vec<u16> = std::iter::repeat_with(|| {
            shard = board.roomiest(shard);
            board.resides(shard, true);
            shard.0
        })
        .take(8)
        .collect();
        assert_eq!(shards, [0, 0, 1, 1, 1, 1, 0, 0]);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::ids::VcpuId;
    use loom::sync::Arc;
    use loom::thread;
    use std::num::NonZeroUsize;

    /// Two shards of a slot each, which runs.
    fn board() -> Arc<Board> {
        let board = Board::new(&ShardPlan::new(2, NonZeroUsize::MIN, &crate::Topology::default()));
        (0..2).for_each(|shard| board.idles(Shard(shard), false));
        Arc::new(board)
    }

    /// A thread that does this, beside the test's.
    fn beside<T: 'static>(board: &Arc<Board>, does: impl FnOnce(&Board) -> T + 'static) -> thread::JoinHandle<T> {
        let board = Arc::clone(board);
        thread::spawn(move || does(&board))
    }

    #[test]
    fn loom_a_slot_that_idles_and_a_vcpu_to_spare_do_not_miss_each_other() {
        loom::model(|| {
            let board = board();
            let finds_slot = beside(&board, |board| {
                let spare = Spare { vcpu: VcpuId(1), stair: 0, came: false };
                board.publish(Shard(1), Some(spare), Progress::default());
                board.nearest_idle(Shard(1)).is_some()
            });
            board.idles(Shard(0), true);
            let finds_vcpu = board.nearest_spare(Shard(0)).is_some();
            assert!(finds_slot.join().unwrap() || finds_vcpu);
        });
    }

    #[test]
    fn loom_shards_that_change_their_quotas_at_once_agree_on_the_shortest() {
        let wants = |shard, ms| move |board: &Board| board.wants(Shard(shard), Nanos(ms));
        loom::model(move || {
            let board = board();
            wants(0, 6)(&board);
            let other = beside(&board, wants(1, 5));
            wants(0, 4)(&board);
            other.join().unwrap();
            assert_eq!(board.quota.load(Ordering::Relaxed), 4);
        });
        loom::model(move || {
            let board = board();
            wants(0, 4)(&board);
            let other = beside(&board, wants(1, 5));
            wants(0, 6)(&board);
            other.join().unwrap();
            assert_eq!(board.quota.load(Ordering::Relaxed), 5);
        });
    }
}
