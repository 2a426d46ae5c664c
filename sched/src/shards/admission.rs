//! The shard of a new vCPU.

use super::board::Board;
use crate::attributes::{Group, GroupId};
use crate::ids::Shard;
use std::collections::HashMap;

/// Finds a shard for each new vCPU. A group's vCPUs are in one shard: its cap is kept there.
#[derive(Debug)]
pub struct Admission {
    /// The shard of the latest.
    latest: Shard,
    /// Where the vCPUs of each group are, and how many there are.
    groups: HashMap<GroupId, (Shard, usize)>,
}

impl Default for Admission {
    fn default() -> Self {
        Self { latest: Shard(0), groups: HashMap::new() }
    }
}

impl Admission {
    /// The shard of a new vCPU of this group.
    pub fn admits(&mut self, board: &Board, group: Option<Group>) -> Shard {
        let known = group.and_then(|group| self.groups.get(&group.id)).map(|(shard, _)| *shard);
        let shard = known.unwrap_or_else(|| board.roomiest(self.latest));
        self.latest = shard;
        group.into_iter().for_each(|group| self.groups.entry(group.id).or_insert((shard, 0)).1 += 1);
        board.resides(shard, true);
        shard
    }

    /// A vCPU of this group ended in a shard.
    pub fn forgets(&mut self, board: &Board, group: Option<Group>, shard: Shard) {
        board.resides(shard, false);
        let Some(group) = group else { return };
        if let Some((_, members)) = self.groups.get_mut(&group.id) {
            *members -= 1;
            if *members == 0 {
                self.groups.remove(&group.id);
            }
        }
    }
}
