//! A domain's shards, as its threads see them without the lock of any.

use super::counts::Tally;
use super::id_allocator::IdAllocator;
use super::whereabouts::Whereabouts;
use crate::attributes::Group;
use crate::ids::{Shard, VcpuId};
use crate::ledger::Ledger;
use crate::policy::Why;
use crate::shards::{Admission, Board, Known, Looks, ShardPlan};
use crate::sync::Mutex;
use crate::time::monotonic;

/// Most vCPUs that a domain holds at a time.
pub const MAX_VCPUS: usize = if cfg!(all(test, shuttle)) { 16 } else { 1 << 17 };

/// Which slots are in which shard, what the shards know of each other, and where each vCPU is.
pub(super) struct Division {
    pub(super) plan: ShardPlan,
    pub(super) board: Board,
    pub(super) whereabouts: Whereabouts,
    /// Taken while a shard's lock is held, never the other way round.
    pub(super) admission: Mutex<Admissions>,
    looks: Box<[Looks]>,
}

/// New vCPUs, their ids and their shards.
#[derive(Debug, Default)]
pub(super) struct Admissions {
    pub(super) ids: IdAllocator,
    shards: Admission,
    /// What vCPUs had counted whose ids were given out again; only of a mechanism that counts by id.
    pub(super) recycled: Tally,
}

impl Admissions {
    /// An id for a new vCPU of this group, and its shard. `None`: all ids are in use.
    pub(super) fn admits(&mut self, board: &Board, group: Option<Group>) -> Option<(VcpuId, Shard)> {
        let id = self.ids.take(MAX_VCPUS)?;
        Some((id, self.places(board, group)))
    }

    /// The shard of a vCPU of this group that has its id.
    pub(super) fn places(&mut self, board: &Board, group: Option<Group>) -> Shard {
        self.shards.admits(board, group)
    }
}

impl Division {
    pub(super) fn new(plan: ShardPlan) -> Self {
        Self {
            board: Board::new(&plan),
            whereabouts: Whereabouts::new(MAX_VCPUS),
            admission: Mutex::default(),
            looks: plan.shards().map(|_| Looks::default()).collect(),
            plan,
        }
    }

    /// A vCPU of this group has ended in a shard, whose lock is held.
    pub(super) fn forgets(&self, vcpu: VcpuId, group: Option<Group>, shard: Shard) {
        let mut admission = self.admission.lock();
        admission.ids.give_back(vcpu);
        admission.shards.forgets(&self.board, group, shard);
    }

    /// The shard from which a slot of this one takes a vCPU before it asks.
    pub(super) fn behind(&self, shard: Shard, why: Why) -> Option<Shard> {
        self.looks[shard.index()].behind(&self.board, &self.plan, shard, why)
    }

    /// A shard, whose lock is held, lets others know what has become of it, and takes over how far they have got.
    pub(super) fn publish(&self, shard: Shard, ledger: &mut Ledger, known: &mut Known) {
        if !self.board.is_needed() {
            return;
        }
        if let Some(front) = self.board.news(shard, known, ledger.progress()) {
            ledger.keeps_up(front, monotonic());
        }
        self.board.publish(shard, ledger.spare(), ledger.progress());
    }
}
