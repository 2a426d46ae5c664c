//! The status of a VM of either kind, which its vCPUs and its owner share.

use super::pausing::Pausing;
use super::{Outcome, PauseError};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use stile_abi::milestone;
use stile_sched::ledger::Account;
use stile_sched::{Domain, Nanos, Time, VcpuId};
use tracing::{Span, debug, trace};

/// A vCPU that takes so long to leave its guest may be starved by the host's scheduler.
pub(super) const STARVES_AFTER: Duration = Duration::from_secs(1);
/// How long the domain's vCPUs may be kept outside for it then.
pub(super) const HOLD: Nanos = Nanos::from_millis(20);

/// The domain of the vCPUs, and their ids in it.
struct Members {
    domain: Arc<dyn Domain>,
    ids: Vec<VcpuId>,
}

/// A VM's name, the domain of its vCPUs, the times of its milestones, and its outcome.
pub struct VmStatus {
    name: String,
    members: OnceLock<Members>,
    /// The last account of each vCPU that has ended.
    last: Box<[OnceLock<Box<Account>>]>,
    /// The vCPU that pays next for work of other threads, of as many as there are.
    pays_next: AtomicUsize,
    /// Held while the vCPUs are retired; see [`VmStatus::end`].
    ending: Mutex<()>,
    outcome: OnceLock<Outcome>,
    /// Is called when the VM has ended.
    on_end: OnceLock<Box<dyn Fn() + Send + Sync>>,
    pausing: Pausing,
    /// Names the VM in diagnostics.
    span: Span,
    started: OnceLock<Time>,
    ready: OnceLock<Time>,
    done: OnceLock<Time>,
}

impl VmStatus {
    /// Status of a VM with this name and number of vCPUs, which are in no domain yet.
    pub fn new(name: &str, vcpus: u32) -> Self {
        Self {
            name: name.to_owned(),
            members: OnceLock::new(),
            last: (0..vcpus).map(|_| OnceLock::new()).collect(),
            pays_next: AtomicUsize::new(0),
            ending: Mutex::default(),
            outcome: OnceLock::new(),
            on_end: OnceLock::new(),
            pausing: Pausing::new(vcpus),
            span: tracing::info_span!("vm", vm = name),
            started: OnceLock::new(),
            ready: OnceLock::new(),
            done: OnceLock::new(),
        }
    }

    /// The span of diagnostics about this VM.
    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    /// The span of diagnostics about one of its vCPUs.
    pub(super) fn vcpu_span(&self, index: u32) -> Span {
        tracing::info_span!(parent: &self.span, "vcpu", index)
    }

    /// The VM's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of vCPUs.
    pub fn vcpus(&self) -> u32 {
        self.last.len() as u32
    }

    /// Whether the VM has ended. Its vCPUs may still be leaving the domain.
    pub fn has_ended(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// The outcome, if the VM has ended.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }

    /// When guest code first ran.
    pub fn started(&self) -> Option<Time> {
        self.started.get().copied()
    }

    /// When the workload reported that it was set up, if it did.
    pub fn ready(&self) -> Option<Time> {
        self.ready.get().copied()
    }

    /// When the workload reported that all its work was done, if it did.
    pub fn done(&self) -> Option<Time> {
        self.done.get().copied()
    }

    /// The account of a vCPU: up to now, or up to its end. `None` for the moment between the vCPU's removal from its
    /// domain and the arrival of its last account here.
    ///
    /// # Panics
    /// If the VM has no such vCPU.
    pub fn account(&self, vcpu: u32) -> Option<Account> {
        let ended = || self.last[vcpu as usize].get().map(|last| Account::clone(last));
        // The vCPU may end between the two reads.
        ended().or_else(|| self.members.get()?.domain.account(self.member(vcpu)?)).or_else(ended)
    }

    /// Keeps the last account of a vCPU, which its domain hands over.
    pub(crate) fn keep(&self, vcpu: u32, last: &Account) {
        self.vcpu_span(vcpu).in_scope(|| trace!(exits = last.exits, "left its domain"));
        let kept = self.last[vcpu as usize].set(Box::new(last.clone()));
        debug_assert!(kept.is_ok(), "a vCPU ends once");
    }

    /// Sends an event to a vCPU.
    pub fn wake(&self, vcpu: u32) {
        if let Some(members) = self.members.get()
            && let Some(&id) = members.ids.get(vcpu as usize)
        {
            members.domain.wake(id);
        }
    }

    /// Pauses the VM. When this returns without an error, none of its vCPUs is in guest code. A paused VM can be ended.
    ///
    /// # Errors
    /// A vCPU has not left its guest after `limit`. The VM goes on.
    pub fn pause(&self, limit: Duration) -> Result<(), PauseError> {
        let Some(members) = self.members.get() else { return Ok(()) };
        self.pausing.pause(&*members.domain, &members.ids, limit)?;
        self.span.in_scope(|| debug!("paused"));
        Ok(())
    }

    /// Has the domain give CPU time to threads that get none from the host, so that this VM's vCPUs can stop.
    pub(super) fn rescue(&self) {
        self.members.get().into_iter().for_each(|members| members.domain.rescue(HOLD));
    }

    /// Lets the vCPUs of a paused VM run again.
    pub fn resume(&self) {
        if let Some(members) = self.members.get() {
            self.span.in_scope(|| debug!("resumes"));
            self.pausing.resume(&*members.domain, &members.ids);
        }
    }

    /// Whether it is paused.
    pub fn is_paused(&self) -> bool {
        self.pausing.is_paused()
    }

    /// How vCPUs learn of a pause.
    pub(super) fn pausing(&self) -> &Pausing {
        &self.pausing
    }

    /// A thread that serves the VM's devices has used so much CPU time. Its vCPUs pay for it, one after the other.
    /// Returns when the VM's cap lets the thread go on; a time that has passed means at once.
    pub(crate) fn charge(&self, time: Nanos) -> Time {
        let Some(members) = self.members.get().filter(|members| !self.has_ended() && !members.ids.is_empty()) else {
            return Time(0);
        };
        // Relaxed: it is a turn, and may be given twice.
        let turn = self.pays_next.fetch_add(1, Ordering::Relaxed);
        members.domain.charge(members.ids[turn % members.ids.len()], time)
    }

    /// Ends the VM. The first outcome counts. When this returns, the domain has been told to retire every vCPU, also if
    /// another thread was first to end the VM.
    ///
    /// A vCPU calls this before it reports that it is done, and so before its id is free. If it reported first, the
    /// domain could give the id to a vCPU of another VM, and that vCPU would be retired.
    pub fn end(&self, outcome: Outcome) {
        let retiring = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if self.outcome.set(outcome).is_err() {
            return;
        }
        if let Some(members) = self.members.get() {
            members.ids.iter().for_each(|&id| members.domain.retire(id));
        }
        drop(retiring);
        if let Some(outcome) = self.outcome() {
            self.span.in_scope(|| debug!(%outcome, "ended"));
        }
        self.on_end.get().into_iter().for_each(|told| told());
    }

    /// Has this function called once the VM has ended, on the thread that ended it, which may carry a vCPU: the
    /// function must not wait. If the VM has ended by now, it may be called twice. Only the first function counts.
    pub fn on_end(&self, told: impl Fn() + Send + Sync + 'static) {
        if self.on_end.set(Box::new(told)).is_ok() && self.has_ended() {
            self.on_end.get().into_iter().for_each(|told| told());
        }
    }

    /// Records the domain and the ids of the vCPUs, or of as many as could be made.
    pub(super) fn join(&self, domain: Arc<dyn Domain>, ids: Vec<VcpuId>) {
        assert!(self.members.set(Members { domain, ids }).is_ok(), "a VM joins one domain once");
    }

    /// Ids of the vCPUs in the domain.
    pub(super) fn ids(&self) -> &[VcpuId] {
        self.members.get().map_or(&[], |members| &members.ids)
    }

    /// The id of a vCPU in the domain.
    pub(crate) fn member(&self, vcpu: u32) -> Option<VcpuId> {
        self.ids().get(vcpu as usize).copied()
    }

    /// Records that the guest has reached a [`milestone`]. Other numbers are ignored.
    pub(crate) fn milestone(&self, value: u32) {
        let reached = match value {
            milestone::STARTED => &self.started,
            milestone::READY => &self.ready,
            milestone::DONE => &self.done,
            _ => return,
        };
        // The first vCPU to reach it counts.
        if reached.get().is_none() {
            let _ = reached.set(stile_sched::time::monotonic());
        }
    }
}
