//! Which shard a slot takes a vCPU from, at the end of a lease and at a yield.

use super::board::Board;
use super::plan::ShardPlan;
use super::{FAR, LAG};
use crate::ids::Shard;
use crate::policy::{Spare, Why};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A shard's looks at others.
#[derive(Debug, Default)]
pub struct Looks {
    number: AtomicU32,
    /// Where its own next vCPU stood when a slot last took one that stood further up.
    took_at: AtomicU64,
}

impl Looks {
    /// Whether a slot of a shard may take this vCPU as its lease ends. One that came from another shard runs there
    /// first: shards would take it from each other for ever. But where none waits it runs as soon as it stands no worse
    /// than those that run, who pay for each moment. It may go there: else a shard whose leases end just when it has
    /// come to another would never share its time.
    pub fn may_take(board: &Board, shard: Shard, spare: Spare) -> bool {
        !spare.came || board.head(shard).is_none()
    }

    /// A slot asks its policy, since its vCPU stopped. At the end of a lease and at a yield it first looks at one other
    /// shard, a different one each time: the shard, if its next vCPU is far behind.
    ///
    /// Without the look at a yield, a vCPU that yields to one that hardly runs would have the slot almost to itself:
    /// whenever a lease ends, that other one is next here, and stands further up than all that wait elsewhere.
    ///
    /// If no vCPU waits here, one that yields goes on. At the end of a lease, any that waits elsewhere shares this slot
    /// from now on. It is that of the shard in turn: were it always the nearest one's, two shards would take a vCPU
    /// from each other, and run all of theirs more than others do.
    pub fn behind(&self, board: &Board, plan: &ShardPlan, shard: Shard, why: Why) -> Option<Shard> {
        let own = board.head(shard);
        let lag = match why {
            Why::Check => LAG,
            Why::Yield(_) if own.is_some() => FAR,
            _ => return None,
        };
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let other = plan.other(shard, number as usize);
        let Some(own) = own else {
            return board.head(other).map_or_else(|| board.nearest_spare(shard), |_| Some(other));
        };
        // One for each stair: two shards that are equally full would change places.
        let is_behind = board.settled(other).is_some_and(|theirs| theirs + lag < own);
        (is_behind && self.took_at.fetch_max(own, Ordering::Relaxed) < own).then_some(other)
    }
}
