//! What a turn with the lock leaves to be done once the lock is free.

use crate::ids::{Slot, VcpuId};
use crate::kick::ThreadId;
use arrayvec::ArrayVec;
/// Most things to do for others after one turn with the lock.
const ACTS: usize = 16;
/// Room that a decision needs: its own kick, the grant, and the kick of a placement. A turn makes two beside settling,
/// a wake and a steal.
pub(super) const ACTS_OF_A_DECISION: usize = 3;

/// Something to do once the lock is free.
#[derive(Debug)]
pub(super) enum Act {
    /// Tell a thread that a slot was handed to it.
    Grant { vcpu: VcpuId, slot: Slot, bind: bool },
    /// Make the vCPU on a stamped slot ask.
    Kick(ThreadId),
}

pub(super) type Acts = ArrayVec<Act, ACTS>;
