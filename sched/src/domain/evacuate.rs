//! Giving all vCPUs back at run time, so that another mechanism goes on with them.
//!
//! Two steps, since threads can only be waited for while no vCPU on one of them waits for the caller:
//! 1. [`Evacuate::halt`]: the threads put their vCPUs down and end. Events, wakes and ends are taken as ever, and wait.
//! 2. [`Evacuate::evacuate`]: every vCPU is given back as it is.
//!
//! Events may still come to the old domain, from senders that do not know yet. They are not acted on but remembered
//! ([`Evacuate::missed`]).

use super::contract::Domain;
use super::id_allocator::IdAllocator;
use crate::attributes::Attributes;
use crate::ids::VcpuId;
use crate::ledger::Account;
use crate::time::Time;
use crate::vcpu::Vcpu;

/// A domain that can give its vCPUs back.
pub trait Evacuate: Domain {
    /// Number of vCPUs.
    fn population(&self) -> usize;

    /// Ends the threads that carry vCPUs. From another thread than those, and with no [`Domain::add`] under way.
    fn halt(&self);

    /// Gives every vCPU back; once, after [`halt`](Self::halt).
    fn evacuate(&self) -> Evacuated;

    /// Whether an event came for a vCPU since it was given back. A sender whose event comes after this question sees
    /// everything that was done before it.
    fn missed(&self, vcpu: VcpuId) -> bool;
}

/// All vCPUs of a domain, and its ids.
#[derive(Debug)]
pub struct Evacuated {
    pub(super) vcpus: Vec<Evacuee>,
    pub(super) ids: IdAllocator,
}

/// A vCPU between two mechanisms.
pub struct Evacuee {
    pub(super) id: VcpuId,
    pub(super) vcpu: Box<dyn Vcpu>,
    pub(super) attributes: Attributes,
    /// It waits for an event or until then.
    pub(super) rests: Option<Time>,
    /// An event has come for it.
    pub(super) event: bool,
    /// It is to end.
    pub(super) retiring: bool,
    /// Its account up to when it was given back.
    pub(super) account: Account,
    pub(super) at: Time,
}

impl std::fmt::Debug for Evacuee {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Evacuee").field("id", &self.id).field("rests", &self.rests).finish_non_exhaustive()
    }
}
