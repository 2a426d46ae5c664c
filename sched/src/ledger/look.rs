//! A look at who waits, a stretch of vCPUs at a time.

use super::Ledger;
use super::account::State;
use crate::domain::Attributes;
use crate::policy::Policy;
use crate::{Time, VcpuId};

/// A vCPU at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Who.
    pub vcpu: VcpuId,
    /// What its policy knows of it.
    pub attributes: Attributes,
    /// Since when it could run and has no slot.
    pub waits: Option<Time>,
}

impl<P: Policy> Ledger<P> {
    /// Appends the vCPUs whose ids lie among the `most` from this one on; gives where the next stretch begins, `None` if this
    /// was the last. Takes nobody's word for it that nobody waits, a policy's least of all.
    pub fn look(&self, from: VcpuId, most: usize, seen: &mut Vec<Seen>) -> Option<VcpuId> {
        let end = from.index() + most;
        seen.extend(self.books.stretch(from.index()..end).map(|(vcpu, entry)| {
            let waits = (entry.state == State::Waiting).then_some(entry.since);
            Seen { vcpu, attributes: entry.attributes, waits }
        }));
        (end < self.books.ids()).then_some(VcpuId(end as u32))
    }

    /// What the policy knows of a vCPU.
    pub fn attributes_of(&self, vcpu: VcpuId) -> Option<Attributes> {
        self.books.attributes_of(vcpu)
    }
}
