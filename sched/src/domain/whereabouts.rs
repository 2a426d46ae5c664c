//! In which shard each vCPU is, for threads that do not hold its lock.
//!
//! Written under the lock of the shard that the vCPU is in. A vCPU that goes from one shard to another is in none on
//! the way: the thread that moves it holds neither lock then, and is between two locks.

use crate::ids::{Shard, VcpuId};
use crate::sync::{AtomicU32, Ordering, relax};

const ON_THE_WAY: u32 = u32::MAX;
/// Set while the vCPU waits in the run queue.
const WAITS: u32 = 1 << 16;

/// The words of all ids.
#[derive(Debug)]
pub(super) struct Whereabouts(Box<[AtomicU32]>);

impl Whereabouts {
    pub(super) fn new(ids: usize) -> Self {
        Self((0..ids).map(|_| AtomicU32::new(0)).collect())
    }

    /// The shard of a vCPU; `None`: it is on the way to one.
    pub(super) fn of(&self, vcpu: VcpuId) -> Option<Shard> {
        // Acquire pairs with the Release in `comes`.
        let word = self.0.get(vcpu.index())?.load(Ordering::Acquire);
        (word != ON_THE_WAY).then_some(Shard(word as u16))
    }

    /// Locks the shard that a vCPU is in.
    pub(super) fn lock_of<G>(&self, vcpu: VcpuId, lock: impl Fn(Shard) -> G) -> (Shard, G) {
        loop {
            // On the way it is only for as long as it takes to get the next lock.
            let Some(shard) = self.of(vcpu) else {
                relax();
                continue;
            };
            let guard = lock(shard);
            if self.of(vcpu) == Some(shard) {
                return (shard, guard);
            }
        }
    }

    /// The shard in whose run queue a vCPU waits.
    pub(super) fn waits_in(&self, vcpu: VcpuId) -> Option<Shard> {
        let word = self.0.get(vcpu.index())?.load(Ordering::Relaxed);
        (word != ON_THE_WAY && word & WAITS != 0).then_some(Shard(word as u16))
    }

    /// A vCPU is in this shard from now on, whose lock is held.
    pub(super) fn comes(&self, vcpu: VcpuId, to: Shard, waits: bool) {
        self.0[vcpu.index()].store(u32::from(to.0) | if waits { WAITS } else { 0 }, Ordering::Release);
    }

    /// A vCPU leaves its shard, whose lock is held.
    pub(super) fn leaves(&self, vcpu: VcpuId) {
        self.0[vcpu.index()].store(ON_THE_WAY, Ordering::Relaxed);
    }

    /// A vCPU begins to wait in the run queue of its shard, whose lock is held, or no longer does.
    pub(super) fn waits(&self, vcpu: VcpuId, waits: bool) {
        let word = &self.0[vcpu.index()];
        let is = word.load(Ordering::Relaxed);
        let becomes = if waits { is | WAITS } else { is & !WAITS };
        if is != becomes {
            word.store(becomes, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::super::events::{Events, Found};
    use super::*;
    use loom::sync::{Arc, Mutex, MutexGuard};
    use loom::thread;

    const VCPU: VcpuId = VcpuId(0);

    /// What a shard knows of the vCPU.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    enum Place {
        Elsewhere,
        Blocked,
        Queued,
    }

    /// Two shards and one vCPU.
    struct Shards {
        whereabouts: Whereabouts,
        events: Events,
        places: [Mutex<Place>; 2],
    }

    impl Shards {
        /// The vCPU is in the first shard, blocked.
        fn new() -> Arc<Self> {
            let places = [Mutex::new(Place::Blocked), Mutex::new(Place::Elsewhere)];
            let shards = Self { whereabouts: Whereabouts::new(1), events: Events::default(), places };
            shards.events.admit();
            Arc::new(shards)
        }

        fn lock(&self, shard: Shard) -> MutexGuard<'_, Place> {
            self.places[shard.index()].lock().unwrap()
        }

        fn find(&self) -> (Shard, MutexGuard<'_, Place>) {
            self.whereabouts.lock_of(VCPU, |shard| self.lock(shard))
        }

        /// The vCPU goes to the other shard if it is in such a place, between two locks as in `moves.rs`.
        fn moves(&self, if_in: impl Fn(Place) -> bool) {
            let (from, mut place) = self.find();
            assert_ne!(*place, Place::Elsewhere, "its lock is held and it is not there");
            if !if_in(*place) {
                return;
            }
            let is = std::mem::replace(&mut *place, Place::Elsewhere);
            self.whereabouts.leaves(VCPU);
            drop(place);
            let to = Shard(1 - from.0);
            let mut place = self.lock(to);
            *place = is;
            self.whereabouts.comes(VCPU, to, is == Place::Queued);
        }

        /// An event, as in `executors.rs`. True: this one woke the vCPU.
        fn wakes(&self, follows: bool) -> bool {
            if self.events.signal() != Found::Blocked {
                return false;
            }
            if follows {
                self.moves(|place| place == Place::Blocked);
            }
            let (_, mut place) = self.find();
            let wakes = self.events.unblock();
            if wakes {
                assert_eq!(*place, Place::Blocked, "it is woken once");
                *place = Place::Queued;
                self.whereabouts.waits(VCPU, true);
            }
            wakes
        }
    }

    fn check(model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(model);
    }

    #[test]
    fn loom_two_threads_that_move_a_vcpu_find_it_where_it_is() {
        check(|| {
            let shards = Shards::new();
            let other = thread::spawn({
                let shards = Arc::clone(&shards);
                move || shards.moves(|_| true)
            });
            shards.moves(|_| true);
            other.join().unwrap();
            let (shard, place) = shards.find();
            assert!(*place == Place::Blocked && shard == Shard(0));
        });
    }

    #[test]
    fn loom_a_vcpu_that_is_moved_while_it_is_woken_is_woken_once() {
        check(|| {
            let shards = Shards::new();
            let start = |act: fn(&Shards) -> bool| {
                let shards = Arc::clone(&shards);
                thread::spawn(move || act(&shards))
            };
            // One waker takes it to its own shard; a slot that idles there takes it as soon as it is queued.
            let wakers = [start(|shards| shards.wakes(true)), start(|shards| shards.wakes(false))];
            shards.moves(|place| place == Place::Queued);
            let woken = wakers.map(|waker| waker.join().unwrap());
            assert!(woken[0] != woken[1], "{woken:?}");
            let (shard, place) = shards.find();
            assert_eq!((*place, shards.whereabouts.waits_in(VCPU)), (Place::Queued, Some(shard)));
        });
    }
}
