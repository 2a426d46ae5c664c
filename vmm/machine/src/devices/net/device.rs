//! The virtio-net device (virtio 1.2, section 5.1): one queue pair, a fixed MAC, no offloads, no control queue.
//!
//! It joins the two halves ([`super::receive`], [`super::transmit`]) and puts them on a switch port. Idle it costs a
//! few hundred bytes.

use std::sync::Arc;

use virtio_bindings::virtio_ids::VIRTIO_ID_NET;
use virtio_bindings::virtio_net::VIRTIO_NET_F_MAC;
use vm_memory::GuestMemoryMmap;

use super::receive::Receiver;
use super::transmit::{Transmitter, Uplink};
use super::{AttachError, DropReason, Frame, Mac, Port, PortNumber, PortStats, Switch, Wakes};
use crate::devices::virtio::{Device, Line, MmioTransport, Notify, Progress, Ring};

pub(super) const RECEIVE_QUEUE: u16 = 0;
pub(super) const TRANSMIT_QUEUE: u16 = 1;
/// Descriptors in each queue. 256 full frames are six times a 64 KiB TCP window; Linux drivers want that many.
pub(super) const QUEUE_SIZE: u16 = 256;

/// A guest's network device.
#[derive(Debug)]
pub struct NetDevice {
    mac: Mac,
    receiver: Arc<Receiver>,
    transmitter: Transmitter,
    port: Port,
}

impl NetDevice {
    /// Makes a device with its registers and attaches it to `switch` as port `number`, which decides its addresses.
    /// `notify` tells the VM of device events and must not own the device.
    pub fn attach(
        switch: &Arc<Switch>,
        number: PortNumber,
        memory: GuestMemoryMmap,
        notify: Arc<dyn Notify>,
    ) -> Result<MmioTransport<Self>, AttachError> {
        let line = Arc::new(Line::new(notify));
        let device = Self::on_switch(switch, number, memory.clone(), Arc::clone(&line))?;
        Ok(MmioTransport::new(device, line, memory))
    }

    /// As [`attach`](Self::attach), for whoever makes registers and line.
    pub fn on_switch(
        switch: &Arc<Switch>,
        number: PortNumber,
        memory: GuestMemoryMmap,
        line: Arc<Line>,
    ) -> Result<Self, AttachError> {
        let receiver = Arc::new(Receiver::new(memory.clone(), Arc::clone(&line)));
        let port = switch.attach(number, Arc::clone(&receiver) as _)?;
        let transmitter = Transmitter::new(memory, line);
        Ok(Self { mac: number.mac(), receiver, transmitter, port })
    }

    /// Number of its port.
    pub fn port(&self) -> PortNumber {
        self.port.number()
    }

    /// Counters of its port.
    pub fn stats(&self) -> PortStats {
        self.port.stats()
    }
}

/// The way to the switch, for one turn.
struct ToSwitch<'a> {
    port: &'a Port,
    wakes: Wakes,
}

impl Uplink for ToSwitch<'_> {
    fn send(&mut self, frame: &Frame) {
        self.port.send(frame, &mut self.wakes);
    }

    fn count_drop(&mut self, reason: DropReason) {
        self.port.count_drop(reason);
    }
}

impl Device for NetDevice {
    fn id(&self) -> u32 {
        VIRTIO_ID_NET
    }

    fn features(&self) -> u64 {
        1 << VIRTIO_NET_F_MAC
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &[QUEUE_SIZE; 2]
    }

    fn config(&self) -> &[u8] {
        &self.mac.0
    }

    fn set_ring(&self, queue: u16, ring: Option<Ring>) {
        match queue {
            RECEIVE_QUEUE => self.receiver.set_ring(ring),
            TRANSMIT_QUEUE => self.transmitter.set_ring(ring),
            _ => {}
        }
    }

    fn queue_notify(&self, queue: u16) -> Progress {
        match queue {
            RECEIVE_QUEUE => self.receiver.buffers_posted(),
            TRANSMIT_QUEUE => return self.transmitter.send_some(ToSwitch { port: &self.port, wakes: Wakes::new() }),
            _ => {}
        }
        Progress::Done
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
