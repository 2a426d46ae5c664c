//! The vCPUs of a VM, for the owner of the VM.
//!
//! 1. [`VcpuSet::enlist`] adds them to a domain. No guest code runs yet.
//! 2. [`VcpuSet::start`] wakes every vCPU.
//! 3. The guest ends, or [`VcpuSet::stop`] ends it. The first outcome is kept, and all vCPUs retire.
//! 4. [`VcpuSet::wait`] returns when every vCPU has left the domain and been closed. The last reference to the kernel's
//!    VM goes with them. Dropping the set stops the VM and waits.

use super::status::STARVES_AFTER;
use super::{MakeError, Outcome, Pausable, VmStatus};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use stile_sched::attributes::Attributes;
use stile_sched::ledger::Usage;
use stile_sched::{Domain, Time, Vcpu, VcpuId};
use tracing::{debug, trace};

/// A vCPU that has stopped for good, on its way to the thread that waits for its VM. That thread closes it, for two
/// reasons: closing takes the kernel long, which must not be charged to other vCPUs of the executor; and an executor
/// must not be the thread that drops its own domain.
pub struct RetiredVcpu {
    _vcpu: Box<dyn Vcpu>,
}

impl RetiredVcpu {
    /// Wraps a vCPU that has stopped.
    pub(crate) fn of(vcpu: Box<dyn Vcpu>) -> Self {
        Self { _vcpu: vcpu }
    }
}

/// The vCPUs of a VM.
pub struct VcpuSet {
    status: Arc<VmStatus>,
    /// Receives the retired vCPUs; and the number that is still to come.
    retired: Mutex<(Receiver<RetiredVcpu>, usize)>,
    created: Time,
}

impl VcpuSet {
    /// The set of a VM that was asked for at the time `created`, and the sender to which its vCPUs go when they retire.
    pub(crate) fn new(status: Arc<VmStatus>, created: Time) -> (Self, Sender<RetiredVcpu>) {
        let (to_graves, retired) = mpsc::channel();
        (Self { status, retired: Mutex::new((retired, 0)), created }, to_graves)
    }

    /// Makes every vCPU and adds it to `domain`. Called once. After an error, dropping the set ends the vCPUs that were
    /// made.
    pub(crate) fn enlist(
        &self,
        domain: Arc<dyn Domain>,
        attributes: Attributes,
        mut make: impl FnMut(u32) -> Result<Box<dyn Pausable>, MakeError>,
    ) -> Result<(), MakeError> {
        let mut ids = Vec::with_capacity(self.status.vcpus() as usize);
        let made = (0..self.status.vcpus()).try_for_each(|index| {
            let _vcpu = self.status.vcpu_span(index).entered();
            let vcpu = self.status.pausing().guard(index, make(index)?);
            let id = domain.add(vcpu, attributes)?;
            trace!(%id, "joined its domain");
            ids.push(id);
            Ok(())
        });
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).1 = ids.len();
        self.status.join(domain, ids);
        self.status.span().in_scope(|| debug!(vcpus = self.status.vcpus(), "made"));
        made
    }

    /// Lets the vCPUs run.
    pub fn start(&self) {
        self.status.span().in_scope(|| debug!("starts"));
        (0..self.status.vcpus()).for_each(|vcpu| self.status.wake(vcpu));
    }

    /// Ends the VM, unless it has ended already. Does not wait.
    pub fn stop(&self) {
        self.status.end(Outcome::Stopped);
    }

    /// Waits until every vCPU has stopped for good, and returns how the VM ended.
    pub fn wait(&self) -> Outcome {
        self.wait_until(None).unwrap_or(Outcome::Stopped)
    }

    /// Like [`wait`](Self::wait), but returns `None` if the VM has not ended after `limit`.
    pub fn wait_for(&self, limit: Duration) -> Option<Outcome> {
        self.wait_until(Some(Instant::now() + limit))
    }

    fn wait_until(&self, until: Option<Instant>) -> Option<Outcome> {
        let mut retired = self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let mut had_ended = self.status.has_ended();
        while retired.1 > 0 {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            match retired.0.recv_timeout(left.min(STARVES_AFTER)) {
                Ok(_) => retired.1 -= 1,
                Err(RecvTimeoutError::Timeout) if left <= STARVES_AFTER => return None,
                Err(RecvTimeoutError::Timeout) => {
                    if had_ended {
                        self.status.rescue();
                    }
                    had_ended = self.status.has_ended();
                }
                // Every vCPU holds a sender until it comes here.
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Some(self.status.outcome().cloned().unwrap_or(Outcome::Stopped))
    }

    /// The status that the vCPUs share.
    pub fn status(&self) -> &Arc<VmStatus> {
        &self.status
    }

    /// When the VM was asked for (CLOCK_MONOTONIC).
    pub fn created(&self) -> Time {
        self.created
    }

    /// The CPU time, wait and exits of each vCPU up to now, or up to its end.
    pub fn usage(&self) -> Vec<Usage> {
        let used = |vcpu| self.status.account(vcpu).as_ref().map(Usage::of).unwrap_or_default();
        (0..self.status.vcpus()).map(used).collect()
    }

    /// Ids of its vCPUs in the domain.
    pub fn ids(&self) -> Vec<VcpuId> {
        self.status.ids().to_vec()
    }
}

impl Drop for VcpuSet {
    fn drop(&mut self) {
        self.stop();
        self.wait();
    }
}
