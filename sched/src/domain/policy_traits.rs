//! What a policy tells of itself once and for all.

use crate::policy::Policy;

/// What a policy tells of itself that never changes, so that threads read it without the lock.
#[derive(Debug, Clone, Copy)]
pub(super) struct PolicyTraits {
    pub(super) keeps_slot_over_exits: bool,
    pub(super) told_of_lone_yields: bool,
    pub(super) tells_presence: bool,
}

impl PolicyTraits {
    pub(super) fn of(policy: &dyn Policy) -> Self {
        Self {
            keeps_slot_over_exits: policy.keeps_slot_over_exits(),
            told_of_lone_yields: policy.is_told_of_lone_yields(),
            tells_presence: policy.tells_presence(),
        }
    }
}
