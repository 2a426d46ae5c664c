//! The state that the vCPUs of a Linux guest share, beside the [`VmStatus`]: memory, ports and devices.

use super::layout::{DEVICES, PAGE};
use super::ports::{self, Power};
use super::power;
use super::serial::SerialPort;
use super::userspace::Apics;
use crate::devices::virtio::{Attachment, Interrupt, Notify};
use crate::devices::{PendingWrite, Written};
use crate::vm::{Outcome, VmStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use stile_sched::Nanos;
use vm_memory::GuestMemoryMmap;

/// The shared state of a running VM.
pub struct LinuxState {
    pub(super) status: Arc<VmStatus>,
    pub(super) memory: GuestMemoryMmap,
    pub(super) serial: SerialPort,
    /// The power button's interrupt.
    pub(super) button: Interrupt,
    /// The devices, in the order of their registers.
    pub(super) devices: Vec<Attachment>,
    /// The interrupt controllers, if they are not KVM's.
    pub(super) apics: Option<Arc<Apics>>,
    /// Whether a panic can be told from a reboot.
    pub(super) tells_panic: bool,
    /// The steal time that the guest was last told for each vCPU, plus one; 0 as long as it has not asked (unit: ns).
    pub(super) steal: Box<[AtomicU64]>,
}

impl LinuxState {
    /// The VM's status.
    pub fn status(&self) -> &Arc<VmStatus> {
        &self.status
    }

    /// Guest memory.
    pub fn memory(&self) -> &GuestMemoryMmap {
        &self.memory
    }

    /// The serial port.
    pub fn serial(&self) -> &SerialPort {
        &self.serial
    }

    /// Presses the power button. Most guests then switch themselves off; one without a driver for it does nothing.
    pub fn press_power_button(&self) {
        self.button.notify();
    }

    /// Handles a guest's write to a port. Returns the VM's outcome if the write ends it.
    pub(super) fn port_write(&self, port: u16, data: &[u8]) -> Option<Outcome> {
        let asked: Power = ports::write(&self.serial, port, data)?;
        Some(power::outcome(asked, &self.memory, self.tells_panic))
    }

    pub(super) fn port_read(&self, port: u16, data: &mut [u8]) {
        ports::read(&self.serial, port, data);
    }

    /// Handles a guest's read of an address without memory. It reads as all ones if there is no device, as on a PC.
    pub(super) fn mmio_read(&self, address: u64, data: &mut [u8]) {
        match self.device_at(address) {
            Some((device, offset)) => device.mmio.read(offset, data),
            None if self.apics.as_ref().is_some_and(|apics| apics.read(address, data)) => {}
            None => data.fill(0xff),
        }
    }

    /// Handles a guest's write to an address without memory. Returns the write if its device is busy: the vCPU has to
    /// make it again before it enters the guest.
    pub(super) fn mmio_write(&self, address: u64, data: &[u8]) -> Option<PendingWrite> {
        let Some((device, offset)) = self.device_at(address) else {
            // A write to no register goes nowhere.
            let _ = self.apics.as_ref().is_some_and(|apics| apics.write(address, data));
            return None;
        };
        match device.mmio.write(offset, data) {
            // The worker does the work of queues.
            Written::Done | Written::More(_) => None,
            Written::Busy => Some(PendingWrite::new(address, data)),
        }
    }

    /// Makes a write again that was refused before.
    pub(super) fn write_again(&self, write: &PendingWrite) -> Option<PendingWrite> {
        self.mmio_write(write.address(), write.data())
    }

    /// The steal time that the guest was last told for a vCPU; `None` if it has not asked.
    pub(super) fn told_steal(&self, vcpu: u32) -> Option<Nanos> {
        self.steal[vcpu as usize].load(Ordering::Relaxed).checked_sub(1).map(Nanos)
    }

    pub(super) fn keep_told_steal(&self, vcpu: u32, told: Option<Nanos>) {
        self.steal[vcpu as usize].store(told.map_or(0, |told| told.0 + 1), Ordering::Relaxed);
    }

    fn device_at(&self, address: u64) -> Option<(&Attachment, u64)> {
        let offset = address.checked_sub(DEVICES)?;
        let device = self.devices.get(usize::try_from(offset / PAGE).ok()?)?;
        Some((device, offset % PAGE))
    }
}
