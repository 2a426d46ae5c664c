//! The registers by which a driver sets up one queue, and the check that turns them into a [`Queue`].

use virtio_queue::{Error, Queue, QueueT};
use vm_memory::{GuestAddress, GuestMemoryMmap};

use super::Fault;

/// What the driver has written for one queue so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueRegs {
    max: u16,
    /// The value as written, which may have more than 16 bits.
    pub(super) size: u32,
    pub(super) ready: bool,
    pub(super) descriptors: u64,
    pub(super) available: u64,
    pub(super) used: u64,
}

impl QueueRegs {
    pub(super) fn new(max: u16) -> Self {
        Self { max, size: max.into(), ready: false, descriptors: 0, available: 0, used: 0 }
    }

    pub(super) fn max(&self) -> u16 {
        self.max
    }

    /// Checks size, alignment and place of the rings. `index` is only for the error.
    pub(super) fn build(&self, index: u32, memory: &GuestMemoryMmap, event_idx: bool) -> Result<Queue, Fault> {
        let layout = |cause| Fault::QueueLayout { queue: index, cause };
        let mut queue = Queue::new(self.max).map_err(layout)?;
        let size = u16::try_from(self.size).map_err(|_| layout(Error::InvalidSize))?;
        queue.try_set_size(size).map_err(layout)?;
        queue.try_set_desc_table_address(GuestAddress(self.descriptors)).map_err(layout)?;
        queue.try_set_avail_ring_address(GuestAddress(self.available)).map_err(layout)?;
        queue.try_set_used_ring_address(GuestAddress(self.used)).map_err(layout)?;
        queue.set_event_idx(event_idx);
        queue.set_ready(true);
        // Address 0 counts as outside: `virtio_queue` reads it as "not set up".
        if self.available == 0 || !queue.is_valid(memory) {
            return Err(Fault::QueueOutside { queue: index });
        }
        Ok(queue)
    }
}

/// Replaces the low or the high half of an address register.
pub(super) fn set_half(register: &mut u64, value: u32, high: bool) {
    let shift = if high { 32 } else { 0 };
    *register = *register & !(0xffff_ffff << shift) | u64::from(value) << shift;
}
