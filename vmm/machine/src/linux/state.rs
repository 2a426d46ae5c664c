//! What the vCPUs of a Linux guest share, beside its [`VmStatus`]: memory, ports and devices.

use super::layout::{DEVICES, PAGE};
use super::ports::{self, Power};
use super::power;
use super::serial::SerialPort;
use crate::devices::virtio::Attachment;
use crate::vm::{Outcome, VmStatus};
use std::sync::Arc;
use vm_memory::GuestMemoryMmap;

/// The shared part of a running VM.
pub struct LinuxState {
    pub(super) status: Arc<VmStatus>,
    pub(super) memory: GuestMemoryMmap,
    pub(super) serial: SerialPort,
    /// In the order of their registers.
    pub(super) devices: Vec<Attachment>,
    /// Whether a panic can be told from a reboot.
    pub(super) tells_panic: bool,
}

impl LinuxState {
    /// What has happened to it.
    pub fn status(&self) -> &Arc<VmStatus> {
        &self.status
    }

    /// Its memory.
    pub fn memory(&self) -> &GuestMemoryMmap {
        &self.memory
    }

    /// Its serial port.
    pub fn serial(&self) -> &SerialPort {
        &self.serial
    }

    /// A guest's write to a port; how the VM ends by it, if it does.
    pub(super) fn port_write(&self, port: u16, data: &[u8]) -> Option<Outcome> {
        let asked: Power = ports::write(&self.serial, port, data)?;
        Some(power::outcome(asked, &self.memory, self.tells_panic))
    }

    pub(super) fn port_read(&self, port: u16, data: &mut [u8]) {
        ports::read(&self.serial, port, data);
    }

    /// A guest's read of what is no memory. Where no device is, it reads all ones, as on a PC.
    pub(super) fn mmio_read(&self, address: u64, data: &mut [u8]) {
        match self.device_at(address) {
            Some((device, offset)) => device.mmio.read(offset, data),
            None => data.fill(0xff),
        }
    }

    pub(super) fn mmio_write(&self, address: u64, data: &[u8]) {
        if let Some((device, offset)) = self.device_at(address) {
            device.mmio.write(offset, data);
        }
    }

    fn device_at(&self, address: u64) -> Option<(&Attachment, u64)> {
        let offset = address.checked_sub(DEVICES)?;
        let device = self.devices.get(usize::try_from(offset / PAGE).ok()?)?;
        Some((device, offset % PAGE))
    }
}
