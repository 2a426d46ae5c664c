//! A device of a Linux guest as the VM attaches it: registers, an event for each queue, and an interrupt.
//!
//! The VM registers `queue_events[q]` as an ioeventfd for writes of `q` (32 bits) to the notification register. If its
//! interrupt controllers are KVM's, it registers the event of `interrupt` as an irqfd of the device's line, edge
//! triggered. Then neither a notification nor an interrupt takes time of the monitor: KVM rings the event, the VM's
//! [`Worker`] does the work, and KVM injects the interrupt. A notification that KVM does not catch reaches `mmio`,
//! which rings the same event. So the worker does the work in any case.

use std::io;
use std::sync::Arc;

use virtio_bindings::virtio_mmio::{VIRTIO_MMIO_QUEUE_NOTIFY, VIRTIO_MMIO_STATUS};
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::eventfd::EventFd;

use super::interrupt::Interrupt;
use super::worker::event;
use super::{Device, Line, MmioTransport, Progress, Worker};
use crate::devices::{DeviceError, MmioDevice, Written};

/// A device, ready to be attached to a VM.
pub struct Attachment {
    /// Its registers.
    pub mmio: Arc<dyn MmioDevice>,
    /// The event of each queue, which a notification rings.
    pub queue_events: Vec<EventFd>,
    /// How the device interrupts the guest.
    pub interrupt: Arc<Interrupt>,
    worker: Arc<Worker>,
}

impl Attachment {
    /// The worker that serves the device.
    pub fn worker(&self) -> &Arc<Worker> {
        &self.worker
    }
}

/// Makes a device for a VM, given its memory.
pub type AttachmentMaker<'a> = Box<dyn FnOnce(&GuestMemoryMmap) -> Result<Attachment, DeviceError> + 'a>;

impl Attachment {
    /// Makes the device `name` (used in messages) with its registers, served by `worker`. `make` gets the line by which
    /// the device interrupts its guest.
    pub fn new<D: Device + 'static>(
        worker: &Arc<Worker>,
        name: &str,
        memory: &GuestMemoryMmap,
        make: impl FnOnce(Arc<Line>) -> Result<D, DeviceError>,
    ) -> Result<Self, DeviceError> {
        let interrupt = Arc::new(Interrupt::new()?);
        let line =
            Line::named(Arc::clone(&interrupt) as _, format!("VM {}: {name}", worker.vm()), Arc::clone(worker.tell()));
        let line = Arc::new(line);
        let device = make(Arc::clone(&line))?;
        let transport = Arc::new(MmioTransport::new(device, line, memory.clone()));
        let events = transport.device().queue_sizes().iter().map(|_| event()).collect::<io::Result<Arc<[_]>>>()?;
        let queue_events = events.iter().map(EventFd::try_clone).collect::<io::Result<_>>()?;
        worker.serve(name, Arc::clone(&transport) as _, Arc::clone(&events))?;
        let mmio = Arc::new(Front { transport, events, _worker: Arc::clone(worker) });
        Ok(Self { mmio, queue_events, interrupt, worker: Arc::clone(worker) })
    }
}

/// The registers of a device that a worker serves.
struct Front<D> {
    transport: Arc<MmioTransport<D>>,
    events: Arc<[EventFd]>,
    /// Keeps the worker alive as long as a device of its VM can be reached.
    _worker: Arc<Worker>,
}

impl<D: Device> MmioDevice for Front<D> {
    fn read(&self, offset: u64, data: &mut [u8]) {
        self.transport.read(offset, data);
    }

    fn write(&self, offset: u64, data: &[u8]) -> Written {
        if offset == u64::from(VIRTIO_MMIO_QUEUE_NOTIFY) {
            let queue = data.try_into().ok().and_then(|data| u16::try_from(u32::from_le_bytes(data)).ok());
            queue.into_iter().for_each(|queue| self.ring(queue));
            return Written::Done;
        }
        let written = self.transport.write(offset, data);
        if offset == u64::from(VIRTIO_MMIO_STATUS) && written == Written::Done && self.transport.is_live() {
            // The driver does not notify again of chains that it offered before it was ready.
            self.events.iter().for_each(ring);
        }
        written
    }

    fn notify(&self, queue: u16) -> Progress {
        self.ring(queue);
        Progress::Done
    }
}

impl<D> Front<D> {
    fn ring(&self, queue: u16) {
        self.events.get(usize::from(queue)).into_iter().for_each(ring);
    }
}

fn ring(event: &EventFd) {
    // This fails only when the counter is full, and then the event has been rung.
    let _ = event.write(1);
}

impl std::fmt::Debug for Attachment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attachment").field("queues", &self.queue_events.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
