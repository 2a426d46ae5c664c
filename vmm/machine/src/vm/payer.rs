//! Who pays for CPU time that threads of the monitor use for a VM.

use std::fmt;
use std::sync::{Arc, OnceLock};
use stile_sched::{Nanos, Time};

use super::VmStatus;

/// Pays for CPU time that was used for it on another thread than its own.
pub trait Payer: Send + Sync {
    /// So much was used. Returns when the thread may go on with its work; a time that has passed means at once.
    fn pays(&self, time: Nanos) -> Time;
}

/// The VM's vCPUs pay, one after the other, and it counts against the VM's cap.
impl Payer for VmStatus {
    fn pays(&self, time: Nanos) -> Time {
        self.charge(time)
    }
}

/// A payer that may be named after those who ask for it were made. Clones are the same. Before that nobody pays.
#[derive(Clone, Default)]
pub struct PaidBy(Arc<OnceLock<Arc<dyn Payer>>>);

impl PaidBy {
    /// This payer pays from now on. Only the first call counts.
    pub fn name(&self, payer: Arc<dyn Payer>) {
        let _ = self.0.set(payer);
    }

    /// The payer.
    pub fn get(&self) -> Option<&dyn Payer> {
        self.0.get().map(|payer| &**payer)
    }
}

impl<P: Payer + 'static> From<Arc<P>> for PaidBy {
    fn from(payer: Arc<P>) -> Self {
        let paid_by = Self::default();
        paid_by.name(payer);
        paid_by
    }
}

impl fmt::Debug for PaidBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PaidBy").field(&self.0.get().is_some()).finish()
    }
}
