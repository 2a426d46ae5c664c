//! The vote that finds the vCPU beside which another one makes progress.

use crate::ids::VcpuId;

/// The vote so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Peer {
    pub(super) candidate: Option<VcpuId>,
    pub(super) votes: u8,
}

impl Peer {
    /// A majority of so many is believed.
    pub(super) const SURE: u8 = 3;
    /// So soon another can take its place.
    const MOST: u8 = 8;

    /// The peer, if it is known.
    pub(super) fn known(self) -> Option<VcpuId> {
        self.candidate.filter(|_| self.votes >= Self::SURE)
    }

    /// Ran for long, beside its candidate or not; else, this one was there.
    pub(super) fn vote(&mut self, beside: bool, other: Option<VcpuId>) {
        if beside {
            self.votes = (self.votes + 1).min(Self::MOST);
        } else if other.is_none() {
            // Its peer may have left just before.
        } else if self.votes > 0 {
            self.votes -= 1;
        } else {
            (self.candidate, self.votes) = (other, 1);
        }
    }

    /// Waited in vain beside its candidate, again and again.
    pub(super) fn in_vain(&mut self) {
        self.votes = self.votes.saturating_sub(2);
    }
}
