//! Minor rotation, the first generation's: a level may be used for only so long.
//!
//! Each stair has a budget, the sum of the quotas granted on it. When it is used up, all vCPUs that still queue there
//! are pushed to the next stair whatever quota they have left. So every wait is bounded by the budgets of the stairs
//! above. The final staircase did without; here it is a part of [`Variant::LevelQuota`](super::Variant::LevelQuota).

use super::matrix::Stair;
use crate::policy::queue::WINDOW;
use crate::time::Nanos;

#[derive(Debug)]
pub(super) struct Budgets {
    /// Budget left by stair, modulo the queue's window.
    left: [Nanos; WINDOW as usize],
    /// The stairs above this one have left the window. A vCPU from another queue may still stand there.
    floor: Stair,
}

impl Budgets {
    pub(super) fn new(floor: Stair) -> Self {
        Self { left: [Nanos::ZERO; WINDOW as usize], floor }
    }

    /// A vCPU may use so much on this stair.
    pub(super) fn grant(&mut self, stair: Stair, quota: Nanos) {
        if let Some(left) = self.of(stair) {
            *left += quota;
        }
    }

    /// So much was used there.
    pub(super) fn use_up(&mut self, stair: Stair, ran: Nanos) {
        if let Some(left) = self.of(stair) {
            *left = left.saturating_sub(ran);
        }
    }

    pub(super) fn is_exhausted(&self, stair: Stair) -> bool {
        self.left[(stair % WINDOW) as usize] == Nanos::ZERO
    }

    /// The stairs above this one leave the window; their places serve others.
    pub(super) fn forget(&mut self, floor: Stair) {
        for stair in self.floor..floor.min(self.floor + WINDOW) {
            self.left[(stair % WINDOW) as usize] = Nanos::ZERO;
        }
        self.floor = self.floor.max(floor);
    }

    fn of(&mut self, stair: Stair) -> Option<&mut Nanos> {
        (stair >= self.floor).then(|| &mut self.left[(stair % WINDOW) as usize])
    }
}
