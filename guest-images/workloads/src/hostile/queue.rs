//! A virtqueue in the attacker's memory, with descriptors of any content.

use super::raw::{Width, clear, store};

/// Number of the receive queue.
pub(super) const RECEIVE: u16 = 0;
/// Number of the transmit queue.
pub(super) const TRANSMIT: u16 = 1;
/// Most descriptors of a queue of the network device.
pub(super) const LARGEST: u16 = 256;

/// The chain goes on.
pub(super) const NEXT: u16 = 1;
/// The device writes to the buffer.
pub(super) const WRITE: u16 = 2;
/// The buffer is a table of descriptors.
pub(super) const INDIRECT: u16 = 4;

/// Memory of a queue (unit: bytes): a page for each of its parts.
pub(super) const QUEUE_BYTES: u64 = 0x3000;
const PART: u64 = 0x1000;

/// A descriptor.
#[derive(Debug, Clone, Copy)]
pub(super) struct Descriptor {
    pub(super) address: u64,
    pub(super) length: u32,
    pub(super) flags: u16,
    pub(super) next: u16,
}

/// A queue.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) number: u16,
    pub(super) size: u16,
    pub(super) descriptors: u64,
    pub(super) available: u64,
    pub(super) used: u64,
    /// Chains made available so far.
    offered: u16,
}

impl Queue {
    /// A queue with empty rings in [`QUEUE_BYTES`] from this page.
    pub(super) fn new(number: u16, base: u64) -> Self {
        clear(base, QUEUE_BYTES);
        let (available, used) = (base + PART, base + 2 * PART);
        Self { number, size: LARGEST, descriptors: base, available, used, offered: 0 }
    }

    /// Writes a descriptor.
    pub(super) fn describe(&self, index: u16, descriptor: Descriptor) {
        write_descriptor(self.descriptors, index, descriptor);
    }

    /// Makes a chain available, whatever is there.
    pub(super) fn offer(&mut self, head: u16) {
        let at = self.available + 4 + 2 * u64::from(self.offered % self.size);
        store(at, Width::Word, head.into());
        self.claim(1);
    }

    /// Says that so many chains more are available.
    pub(super) fn claim(&mut self, more: u16) {
        self.offered = self.offered.wrapping_add(more);
        store(self.available + 2, Width::Word, self.offered.into());
    }
}

/// Writes a descriptor of a table.
pub(super) fn write_descriptor(table: u64, index: u16, descriptor: Descriptor) {
    let at = table + 16 * u64::from(index);
    store(at, Width::Quad, descriptor.address);
    store(at + 8, Width::Long, descriptor.length.into());
    store(at + 12, Width::Word, descriptor.flags.into());
    store(at + 14, Width::Word, descriptor.next.into());
}
