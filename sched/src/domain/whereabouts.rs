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
    use super::*;
    use loom::sync::{Arc, Mutex, MutexGuard};
    use loom::thread;

    const VCPU: VcpuId = VcpuId(0);

    /// Whether the vCPU is there, for each of two shards.
    struct Shards {
        whereabouts: Whereabouts,
        holds: [Mutex<bool>; 2],
    }

    impl Shards {
        fn lock(&self, shard: Shard) -> MutexGuard<'_, bool> {
            self.holds[shard.index()].lock().unwrap()
        }

        /// As `moves.rs` does it, between two locks.
        fn moves(&self) {
            let (from, mut holds) = self.whereabouts.lock_of(VCPU, |shard| self.lock(shard));
            assert!(*holds, "its lock is held and it is not there");
            *holds = false;
            self.whereabouts.leaves(VCPU);
            drop(holds);
            let to = Shard(1 - from.0);
            let mut holds = self.lock(to);
            *holds = true;
            self.whereabouts.comes(VCPU, to, false);
        }
    }

    #[test]
    fn loom_two_threads_that_move_a_vcpu_find_it_where_it_is() {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(|| {
            let holds = [Mutex::new(true), Mutex::new(false)];
            let shards = Arc::new(Shards { whereabouts: Whereabouts::new(1), holds });
            let other = thread::spawn({
                let shards = Arc::clone(&shards);
                move || shards.moves()
            });
            shards.moves();
            other.join().unwrap();
            let (shard, holds) = shards.whereabouts.lock_of(VCPU, |shard| shards.lock(shard));
            assert!(*holds && shard == Shard(0));
        });
    }
}
