//! A look at the vCPUs and their waits, a stretch of ids at a time.

use super::account::State;
use super::books::Books;
use crate::attributes::Attributes;
use crate::ids::VcpuId;
use crate::time::Time;

/// A vCPU at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// What its policy knows of it.
    pub attributes: Attributes,
    /// Since when it could run and has no slot.
    pub waits: Option<Time>,
    /// It may wait longer than its policy promises, as it has used so much beyond its leases.
    pub owes: bool,
}

/// Appends the vCPUs whose ids lie among the `most` from this one on. Returns the id with which the next stretch
/// begins, `None` if this was the last.
pub(super) fn look(books: &Books, from: VcpuId, most: usize, seen: &mut Vec<Seen>) -> Option<VcpuId> {
    let end = from.index() + most;
    seen.extend(books.stretch(from.index()..end).map(|(vcpu, entry)| {
        let waits = (entry.state == State::Waiting).then_some(entry.since);
        Seen { vcpu, attributes: entry.attributes, waits, owes: false }
    }));
    (end < books.ids()).then_some(VcpuId(end as u32))
}
