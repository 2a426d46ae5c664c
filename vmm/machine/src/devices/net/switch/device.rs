//! The virtio-net device on a port of the switch.

use std::sync::Arc;

use vm_memory::GuestMemoryMmap;

use super::{AttachError, Port, Switch, Wakes};
use crate::devices::net::device::{Backend, VirtioNet};
use crate::devices::net::receive::Receiver;
use crate::devices::net::transmit::{Transmitter, Uplink};
use crate::devices::net::{DropReason, Frame, PortNumber, PortStats};
use crate::devices::virtio::{Line, MmioTransport, Notify};

/// A guest's network device on a switch.
pub type NetDevice = VirtioNet<SwitchPort>;

/// The network of a [`NetDevice`]: a port of a switch. The port hands frames for the guest to the device's receiver.
#[derive(Debug)]
pub struct SwitchPort(Port);

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

    /// Makes a device without registers and attaches it to `switch` as port `number`. The caller makes the registers
    /// and `line`, by which the device tells the VM of its events.
    pub fn on_switch(
        switch: &Arc<Switch>,
        number: PortNumber,
        memory: GuestMemoryMmap,
        line: Arc<Line>,
    ) -> Result<Self, AttachError> {
        let receiver = Arc::new(Receiver::new(memory.clone(), Arc::clone(&line)));
        let port = switch.attach(number, Arc::clone(&receiver) as _)?;
        let transmitter = Transmitter::new(memory, line);
        Ok(Self { mac: number.mac(), receiver, transmitter, backend: SwitchPort(port) })
    }

    /// Number of its port.
    pub fn port(&self) -> PortNumber {
        self.backend.0.number()
    }

    /// Counters of its port.
    pub fn stats(&self) -> PortStats {
        self.backend.0.stats()
    }
}

/// The way to the switch, for one turn. The receivers of its frames are told when it is dropped.
struct ToSwitch<'a> {
    port: &'a Port,
    wakes: Wakes,
}

impl Uplink for ToSwitch<'_> {
    fn send(&mut self, frame: &Frame) -> usize {
        self.port.send(frame, &mut self.wakes)
    }

    fn count_drop(&mut self, reason: DropReason) {
        self.port.count_drop(reason);
    }
}

impl Backend for SwitchPort {
    fn uplink(&self) -> impl Uplink {
        ToSwitch { port: &self.0, wakes: Wakes::new() }
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
