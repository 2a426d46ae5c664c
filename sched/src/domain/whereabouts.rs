//! In which shard each vCPU is, for threads that do not hold its lock.
//!
//! Written under the lock of the shard that the vCPU is in. A vCPU that goes from one shard to another is in none on
//! the way: the thread that moves it holds neither lock then, and is between two locks.

use crate::ids::{Shard, VcpuId};
use crate::sync::{AtomicU32, Ordering};

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
