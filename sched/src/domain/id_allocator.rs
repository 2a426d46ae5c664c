//! Ids for vCPUs, given out again only after a rest.
//!
//! An event may be on its way to a vCPU that has just ended. If the next vCPU got the same id at once, it would be
//! woken in the old one's name, perhaps before its VM is started. So an id rests until [`REST`] others have been given
//! back.

use crate::ids::VcpuId;
use std::collections::VecDeque;

/// How many ids rest at a time. An event is under way for microseconds, and ending a vCPU takes longer than that.
const REST: usize = 1024;

/// The ids of a domain.
#[derive(Debug, Default)]
pub(super) struct IdAllocator {
    next: u32,
    resting: VecDeque<u32>,
}

impl IdAllocator {
    /// An id below `most`; `None` if all are in use.
    pub(super) fn take(&mut self, most: usize) -> Option<VcpuId> {
        let full = self.next as usize >= most;
        if full || self.resting.len() > REST {
            return self.resting.pop_front().map(VcpuId);
        }
        self.next += 1;
        Some(VcpuId(self.next - 1))
    }

    /// Ids from 0 on that were given out at some time.
    pub(super) fn given_out(&self) -> u32 {
        self.next
    }

    /// Number of ids in use.
    pub(super) fn in_use(&self) -> usize {
        self.next as usize - self.resting.len()
    }

    /// An id whose vCPU has ended.
    pub(super) fn give_back(&mut self, id: VcpuId) {
        self.resting.push_back(id.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_comes_back_only_after_a_rest() {
        let mut allocator = IdAllocator::default();
        let first = allocator.take(usize::MAX).unwrap();
        allocator.give_back(first);
        for _ in 0..REST {
            let id = allocator.take(usize::MAX).unwrap();
            assert_ne!(id, first);
            allocator.give_back(id);
        }
        assert_eq!(allocator.take(usize::MAX), Some(first));
    }

    #[test]
    fn a_full_domain_gives_resting_ids_and_then_none() {
        let mut allocator = IdAllocator::default();
        let ids: Vec<_> = (0..3).map(|_| allocator.take(3).unwrap()).collect();
        assert_eq!((allocator.take(3), allocator.in_use()), (None, 3));
        allocator.give_back(ids[1]);
        assert_eq!(allocator.take(3), Some(ids[1]));
    }
}
