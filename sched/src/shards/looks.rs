//! Which shard a slot takes a vCPU from whose lease has ended.

use super::LAG;
use super::board::Board;
use super::plan::ShardPlan;
use crate::ids::Shard;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// A shard's looks at others.
#[derive(Debug, Default)]
pub struct Looks {
    number: AtomicU32,
    /// Where its own next vCPU stood when a slot last took one that stood further up.
    took_at: AtomicU64,
}

impl Looks {
    /// A slot of this shard looks at one other shard, a different one each time: the shard, if its next vCPU is far
    /// behind. If none waits here, any that waits elsewhere shares this slot from now on. It is that of the shard in
    /// turn: were it always the nearest one's, two shards would take a vCPU from each other, and run all of theirs
    /// more than others do.
    pub fn behind(&self, board: &Board, plan: &ShardPlan, shard: Shard) -> Option<Shard> {
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        let other = plan.other(shard, number as usize);
        let (own, theirs) = (board.head(shard), board.settled(other));
        match (own, theirs) {
            (None, Some(_)) => Some(other),
            (None, None) => board.nearest_spare(shard),
            // One for each stair: two shards that are equally full would change places.
            (Some(own), Some(theirs)) if theirs + LAG < own => {
                (self.took_at.fetch_max(own, Ordering::Relaxed) < own).then_some(other)
            }
            _ => None,
        }
    }
}
