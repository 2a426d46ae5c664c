//! What the vCPUs of a VM share with each other and with whoever runs the VM, whatever the guest is.

use super::Outcome;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use stile_abi::milestone;
use stile_sched::ledger::Account;
use stile_sched::{Domain, Time, VcpuId};

/// The vCPUs' ids, and the domain that carries them.
struct Members {
    domain: Arc<dyn Domain>,
    ids: Vec<VcpuId>,
}

/// A VM's name, its vCPUs in a domain, when it got how far, and how it ended.
pub struct VmStatus {
    name: String,
    members: OnceLock<Members>,
    /// Accounts of vCPUs that have ended, one for each vCPU.
    last: Box<[OnceLock<Box<Account>>]>,
    /// Held while the vCPUs are retired; see [`VmStatus::end`].
    ending: Mutex<()>,
    outcome: OnceLock<Outcome>,
    started: OnceLock<Time>,
    ready: OnceLock<Time>,
    done: OnceLock<Time>,
}

impl VmStatus {
    /// Of a VM with this name and so many vCPUs, which are in no domain yet.
    pub fn new(name: &str, vcpus: u32) -> Self {
        Self {
            name: name.to_owned(),
            members: OnceLock::new(),
            last: (0..vcpus).map(|_| OnceLock::new()).collect(),
            ending: Mutex::default(),
            outcome: OnceLock::new(),
            started: OnceLock::new(),
            ready: OnceLock::new(),
            done: OnceLock::new(),
        }
    }

    /// The VM's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of vCPUs.
    pub fn vcpus(&self) -> u32 {
        self.last.len() as u32
    }

    /// Whether it has ended; its vCPUs may still be on their way out.
    pub fn has_ended(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// How it ended, if it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }

    /// When guest code first ran.
    pub fn started(&self) -> Option<Time> {
        self.started.get().copied()
    }

    /// When its workload was set up, if it says so.
    pub fn ready(&self) -> Option<Time> {
        self.ready.get().copied()
    }

    /// When its workload had done all it had to, if it has and says so.
    pub fn done(&self) -> Option<Time> {
        self.done.get().copied()
    }

    /// What became of a vCPU's time so far, or until it ended; `None` while its domain has let go of it and not yet given
    /// the account to it.
    ///
    /// # Panics
    /// If the VM has no such vCPU.
    pub fn account(&self, vcpu: u32) -> Option<Account> {
        let ended = || self.last[vcpu as usize].get().map(|last| Account::clone(last));
        // It may end between two looks.
        ended().or_else(|| self.members.get()?.domain.account(self.member(vcpu)?)).or_else(ended)
    }

    /// The last account of a vCPU, from its domain.
    pub(crate) fn keep(&self, vcpu: u32, last: &Account) {
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

    /// Ends the VM; the first outcome counts. When this returns, the domain has been told to retire every vCPU, whoever
    /// came first.
    ///
    /// A vCPU must not let go of its id by itself before that: the domain might give the id to a vCPU of another VM, and
    /// that one would be retired. So each comes through here before it says that it is done.
    pub fn end(&self, outcome: Outcome) {
        let _retiring = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if self.outcome.set(outcome).is_ok()
            && let Some(members) = self.members.get()
        {
            members.ids.iter().for_each(|&id| members.domain.retire(id));
        }
    }

    /// Its vCPUs, or as many as could be made, are in this domain under these ids.
    pub(super) fn join(&self, domain: Arc<dyn Domain>, ids: Vec<VcpuId>) {
        assert!(self.members.set(Members { domain, ids }).is_ok(), "a VM joins one domain once");
    }

    /// Ids of its vCPUs in the domain.
    pub(super) fn ids(&self) -> &[VcpuId] {
        self.members.get().map_or(&[], |members| &members.ids)
    }

    /// The id of a vCPU in the domain.
    pub(crate) fn member(&self, vcpu: u32) -> Option<VcpuId> {
        self.ids().get(vcpu as usize).copied()
    }

    /// It has come to one of [`milestone`]; other numbers mean nothing here.
    pub(crate) fn milestone(&self, value: u32) {
        let reached = match value {
            milestone::STARTED => &self.started,
            milestone::READY => &self.ready,
            milestone::DONE => &self.done,
            _ => return,
        };
        // Only the first vCPU to get there counts.
        if reached.get().is_none() {
            let _ = reached.set(stile_sched::time::monotonic());
        }
    }
}
