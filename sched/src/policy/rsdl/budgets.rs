//! Minor rotation, the first generation's: a level may be used for only so long.
//!
//! Each stair has a budget, the sum of the quotas granted on it. When it is used up, all vCPUs that still queue there
//! are pushed to the next stair whatever quota they have left. So every wait is bounded by the budgets of the stairs
//! above. The final staircase did without; here it is a part of [`Variant::LevelQuota`](super::Variant::LevelQuota).

use super::matrix::Stair;
use crate::policy::queue::WINDOW;
use crate::time::Nanos;

/// Budget left by stair, modulo the queue's window.
#[derive(Debug)]
pub(super) struct Budgets([Nanos; WINDOW as usize]);

impl Default for Budgets {
    fn default() -> Self {
        Self([Nanos::ZERO; WINDOW as usize])
    }
}

impl Budgets {
    /// A vCPU may use so much on this stair.
    pub(super) fn grant(&mut self, stair: Stair, quota: Nanos) {
        *self.of(stair) += quota;
    }

    /// So much was used there.
    pub(super) fn use_up(&mut self, stair: Stair, ran: Nanos) {
        *self.of(stair) = self.of(stair).saturating_sub(ran);
    }

    pub(super) fn is_exhausted(&self, stair: Stair) -> bool {
        self.0[(stair % WINDOW) as usize] == Nanos::ZERO
    }

    /// The stair leaves the window; its place serves another.
    pub(super) fn forget(&mut self, stair: Stair) {
        *self.of(stair) = Nanos::ZERO;
    }

    fn of(&mut self, stair: Stair) -> &mut Nanos {
        &mut self.0[(stair % WINDOW) as usize]
    }
}
