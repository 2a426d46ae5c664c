//! One working split virtqueue, for a device: take a chain, give it back, find out whether to notify the driver.
//!
//! Both ways of suppressing notifications work: event indexes if the driver negotiated them, else the rings' flags.
//! Each side writes its index, fences, and reads what the other side asks for. So at least one side sees the other's
//! change if both change at once. Every error is a [`Fault`] of the driver.

use std::sync::atomic::{Ordering, fence};

use virtio_bindings::virtio_ring::VRING_AVAIL_F_NO_INTERRUPT;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

use super::{Chain, ChainError, Fault, sync};

/// How often the ring is looked at again because a chain came while the driver was asked to ring.
const TRIES: u32 = 8;

/// A virtqueue that the driver has set up.
#[derive(Debug)]
pub struct Ring {
    queue: Queue,
    index: u16,
    /// Tables of descriptors were negotiated.
    indirect: bool,
}

impl Ring {
    /// Takes over queue `index`, which the transport has checked.
    pub(super) fn new(queue: Queue, index: u16, indirect: bool) -> Self {
        Self { queue, index, indirect }
    }

    /// Takes the next chain that the driver has made available.
    pub fn take(&mut self, memory: &GuestMemoryMmap) -> Result<Option<Chain>, Fault> {
        let mut chains = self.queue.iter(memory).map_err(|cause| Fault::Ring { queue: self.index, cause })?;
        let head = chains.next().map(|chain| chain.head_index());
        let (table, size) = (GuestAddress(self.queue.desc_table()), self.queue.size());
        // With tables a chain may be longer than the queue that the driver has chosen.
        let longest = if self.indirect { self.queue.max_size() } else { size };
        Ok(head.map(|head| Chain { head, table, size, longest, indirect: self.indirect }))
    }

    /// Takes the next chain; if there is none, asks the driver to ring for the next one.
    pub fn take_or_arm(&mut self, memory: &GuestMemoryMmap) -> Result<Option<Chain>, Fault> {
        for _ in 0..TRIES {
            match self.take(memory)? {
                Some(chain) => return Ok(Some(chain)),
                None if self.enable_kicks(memory)? => {}
                None => return Ok(None),
            }
        }
        // Only a driver that takes chains back comes here. It will ring.
        Ok(None)
    }

    /// Leaves the chain that was taken last in the queue, as if it had not been taken.
    pub fn put_back(&mut self) {
        self.queue.go_to_previous_position();
    }

    /// Gives a chain back after `written` bytes were written to it.
    pub fn give_back(&mut self, memory: &GuestMemoryMmap, head: u16, written: u32) -> Result<(), Fault> {
        self.queue.add_used(memory, head, written).map_err(|cause| self.ring_fault(cause))
    }

    /// Whether the driver wants to be interrupted for the chains given back since the last call.
    pub fn wants_interrupt(&mut self, memory: &GuestMemoryMmap) -> Result<bool, Fault> {
        sync::step();
        if self.queue.event_idx_enabled() {
            return self.queue.needs_notification(memory).map_err(|cause| self.ring_fault(cause));
        }
        // Orders the used index before the flag; the driver clears the flag, fences and looks at the used index.
        fence(Ordering::SeqCst);
        let flags: u16 = memory
            .load(GuestAddress(self.queue.avail_ring()), Ordering::Relaxed)
            .map_err(|cause| self.ring_fault(virtio_queue::Error::GuestMemory(cause)))?;
        Ok(u32::from(u16::from_le(flags)) & VRING_AVAIL_F_NO_INTERRUPT == 0)
    }

    /// Asks the driver to ring when it makes a chain available. Returns whether there is a chain already, for which the
    /// driver may not have rung.
    pub fn enable_kicks(&mut self, memory: &GuestMemoryMmap) -> Result<bool, Fault> {
        sync::step();
        self.queue.enable_notification(memory).map_err(|cause| self.ring_fault(cause))
    }

    /// Tells the driver that it need not ring. With event indexes the driver does not ring anyway, until kicks are
    /// enabled again.
    pub fn disable_kicks(&mut self, memory: &GuestMemoryMmap) -> Result<(), Fault> {
        self.queue.disable_notification(memory).map_err(|cause| self.ring_fault(cause))
    }

    /// The fault for a malformed chain of this queue.
    pub fn chain_fault(&self, head: u16, cause: ChainError) -> Fault {
        Fault::Chain { queue: self.index, head, cause }
    }

    fn ring_fault(&self, cause: virtio_queue::Error) -> Fault {
        Fault::Ring { queue: self.index, cause }
    }
}
