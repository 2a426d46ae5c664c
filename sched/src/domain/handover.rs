//! Handing all vCPUs over at run time, so that another domain goes on with them.
//!
//! Steps, by a thread that carries no vCPU:
//! 1. [`Handover::berths`] of the domain that goes on: whatever the host may refuse.
//! 2. [`Handover::halt`] of the one that ends: its threads put their vCPUs down and end. Events, wakes and ends are
//!    taken as ever, and wait.
//! 3. [`Handover::evacuate`]: every vCPU is given back as it is.
//! 4. [`Handover::adopt`]: the other domain goes on with them, under the same ids.
//!
//! Events may still come to the old domain, from senders that do not know yet. They are not acted on but remembered
//! ([`Handover::missed`]).

use super::berth::Berth;
use super::contract::Domain;
use super::id_allocator::IdAllocator;
use crate::attributes::Attributes;
use crate::ids::VcpuId;
use crate::ledger::Account;
use crate::time::{Nanos, Time};
use crate::vcpu::Vcpu;
use std::io;

/// A domain that can give its vCPUs back, and go on with those of another.
pub trait Handover: Domain {
    /// Number of vCPUs.
    fn population(&self) -> usize;

    /// What it needs of the host to [adopt](Self::adopt) so many vCPUs.
    ///
    /// # Errors
    /// The host gives no thread or no timer. Nothing has changed.
    fn berths(&self, vcpus: usize) -> io::Result<Vec<Berth>>;

    /// Ends the threads that carry vCPUs. From another thread than those, and with no [`Domain::add`] under way.
    fn halt(&self);

    /// Gives every vCPU back; once, after [`halt`](Self::halt).
    fn evacuate(&self) -> Evacuated;

    /// Whether an event may have come for a vCPU since it was given back. A sender whose event comes after this
    /// question sees everything that was done before it.
    fn missed(&self, vcpu: VcpuId) -> bool;

    /// Goes on with all vCPUs of another domain. This one has had none yet. A vCPU that waited for an event or a
    /// deadline may be woken early.
    fn adopt(&self, evacuated: Evacuated, berths: Vec<Berth>) -> Adopted;
}

/// All vCPUs of a domain, and its ids.
#[derive(Debug)]
pub struct Evacuated {
    pub(super) vcpus: Vec<Evacuee>,
    pub(super) ids: IdAllocator,
}

impl Evacuated {
    /// Changes the attributes with which its vCPUs go on.
    pub fn change(&mut self, change: impl Fn(VcpuId, &mut Attributes)) {
        self.vcpus.iter_mut().for_each(|evacuee| change(evacuee.id, &mut evacuee.attributes));
    }
}

/// A vCPU between two domains.
pub struct Evacuee {
    pub(super) id: VcpuId,
    pub(super) vcpu: Box<dyn Vcpu>,
    pub(super) attributes: Attributes,
    /// It waits for an event or until then.
    pub(super) rests: Option<Time>,
    /// An event may have come for it.
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

/// What became of adopted vCPUs.
#[derive(Default)]
pub struct Adopted {
    /// Those that go on.
    pub(super) ids: Vec<VcpuId>,
    /// Those that were to end, with their last accounts.
    pub(super) ended: Vec<(Box<dyn Vcpu>, Account)>,
}

impl Adopted {
    /// Takes out those that were to end, and gives their ids back.
    pub(super) fn but_for_ended(&mut self, evacuees: Vec<Evacuee>, ids: &mut IdAllocator) -> Vec<Evacuee> {
        let (ended, go_on): (Vec<_>, Vec<_>) = evacuees.into_iter().partition(|evacuee| evacuee.retiring);
        for Evacuee { id, vcpu, account, .. } in ended {
            ids.give_back(id);
            self.ended.push((vcpu, account));
        }
        self.ids = go_on.iter().map(|evacuee| evacuee.id).collect();
        go_on
    }
}

impl std::fmt::Debug for Adopted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Adopted").field("ids", &self.ids).finish_non_exhaustive()
    }
}

/// The account of a vCPU in the domains that it has left.
#[derive(Debug, Clone, Default)]
pub(super) struct Before(Option<Box<Account>>);

impl Before {
    pub(super) fn of(account: Account) -> Self {
        Self(Some(Box::new(account)))
    }

    /// The account in all domains of one that has this in the present one.
    pub(super) fn plus(&self, mut present: Account) -> Account {
        self.0.iter().for_each(|before| present.merge(before));
        present
    }

    /// What it had waited.
    pub(super) fn waited(&self) -> Nanos {
        self.0.as_ref().map_or(Nanos::ZERO, |before| before.wait)
    }

    /// What the host had taken from it.
    pub(super) fn taken(&self) -> Nanos {
        self.0.as_ref().map_or(Nanos::ZERO, |before| before.taken)
    }
}
