//! The registers of a virtio device (virtio-mmio, version 2), taken from its driver.

use super::arena::PAGE;
use super::error::AttackError;
use std::fs::{self, File, OpenOptions};
use std::sync::atomic::Ordering;
use vm_memory::{Bytes, FileOffset, MmapRegion, VolatileMemory};

/// Where the kernel lists the devices of this driver, and takes one away from it.
const DRIVER: &str = "/sys/bus/platform/drivers/virtio-mmio";
/// The kernel's list of physical addresses, with the device at each.
const ADDRESSES: &str = "/proc/iomem";

pub(super) const DEVICE_ID: usize = 0x08;
pub(super) const DRIVER_FEATURES: usize = 0x20;
pub(super) const DRIVER_FEATURES_SEL: usize = 0x24;
pub(super) const QUEUE_SEL: usize = 0x30;
pub(super) const QUEUE_NUM: usize = 0x38;
pub(super) const QUEUE_READY: usize = 0x44;
pub(super) const QUEUE_NOTIFY: usize = 0x50;
pub(super) const INTERRUPT_ACK: usize = 0x64;
pub(super) const STATUS: usize = 0x70;
/// The places of descriptors, available ring and used ring; the high half of each comes 4 bytes later.
pub(super) const PLACES: [usize; 3] = [0x80, 0x90, 0xa0];
/// Sectors of a disk.
pub(super) const CONFIG: usize = 0x100;

/// Values of the status register, in the order of the initialisation.
pub(super) const STATUSES: [u32; 4] = [1, 3, 11, 15];

/// Device numbers (virtio 1.2, section 5).
pub(super) const NET: u32 = 1;
pub(super) const BLOCK: u32 = 2;
pub(super) const CONSOLE: u32 = 3;
pub(super) const VSOCK: u32 = 19;

/// A device.
pub(super) struct Device {
    registers: MmapRegion,
    kind: u32,
}

/// Takes all devices from their drivers.
pub(super) fn take_all() -> Result<Vec<Device>, AttackError> {
    let addresses = fs::read_to_string(ADDRESSES).map_err(AttackError::Addresses)?;
    let names = fs::read_dir(DRIVER).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    // What is no device has no address.
    let found = names.iter().filter_map(|name| Some((name, address_of(&addresses, name)?)));
    let devices: Vec<_> = found.map(|(name, address)| take(name, address)).collect::<Result<_, _>>()?;
    if devices.is_empty() { Err(AttackError::NoDevice) } else { Ok(devices) }
}

/// The first address of a device, in lines such as `d0000000-d0000fff : LNRO0005:00`.
fn address_of(addresses: &str, name: &str) -> Option<u64> {
    let line = addresses.lines().find(|line| line.split(" : ").nth(1).is_some_and(|of| of.trim() == name))?;
    u64::from_str_radix(line.trim().split('-').next()?, 16).ok()
}

fn take(name: &str, address: u64) -> Result<Device, AttackError> {
    fs::write(format!("{DRIVER}/unbind"), name)
        .map_err(|source| AttackError::Take { device: name.to_owned(), source })?;
    let map = |why: String| AttackError::Map { what: name.to_owned(), why };
    let memory: File = OpenOptions::new().read(true).write(true).open("/dev/mem").map_err(|e| map(e.to_string()))?;
    let registers = MmapRegion::from_file(FileOffset::new(memory, address), PAGE).map_err(|e| map(e.to_string()))?;
    let mut device = Device { registers, kind: 0 };
    device.kind = device.read(DEVICE_ID);
    Ok(device)
}

impl Device {
    /// Which kind of device it is.
    pub(super) fn kind(&self) -> u32 {
        self.kind
    }

    pub(super) fn read(&self, register: usize) -> u32 {
        self.registers.as_volatile_slice().load(register, Ordering::Relaxed).unwrap_or_default()
    }

    pub(super) fn write(&self, register: usize, value: u32) {
        // Registers lie in the page.
        let _ = self.registers.as_volatile_slice().store(value, register, Ordering::Relaxed);
    }

    /// Writes so many bytes at any offset that has room for them.
    pub(super) fn write_narrow(&self, offset: usize, bytes: &[u8]) {
        let _ = self.registers.as_volatile_slice().write_slice(bytes, offset);
    }

    pub(super) fn reset(&self) {
        self.write(STATUS, 0);
    }

    /// Resets the device, and takes its initialisation to the point where queues are set up.
    pub(super) fn begin(&self, features: u64) {
        let [acknowledge, driver, features_ok, _] = STATUSES;
        [0, acknowledge, driver].into_iter().for_each(|status| self.write(STATUS, status));
        for (select, half) in [(0, features as u32), (1, (features >> 32) as u32)] {
            self.write(DRIVER_FEATURES_SEL, select);
            self.write(DRIVER_FEATURES, half);
        }
        self.write(STATUS, features_ok);
    }

    /// Sets a queue of this size up at these addresses.
    pub(super) fn set_up(&self, queue: u32, size: u32, places: [u64; 3]) {
        self.write(QUEUE_SEL, queue);
        self.write(QUEUE_NUM, size);
        for (register, address) in PLACES.into_iter().zip(places) {
            self.write(register, address as u32);
            self.write(register + 4, (address >> 32) as u32);
        }
        self.write(QUEUE_READY, 1);
    }

    /// Has the device work.
    pub(super) fn go(&self) {
        self.write(STATUS, STATUSES[3]);
    }

    pub(super) fn notify(&self, queue: u32) {
        self.write(QUEUE_NOTIFY, queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_devices_address_is_that_of_its_line() {
        let addresses = "c0000000-c0000fff : LNRO0005:00\n  c0001000-c0001fff : LNRO0005:01\nfee00000-fee00fff : x\n";
        assert_eq!(address_of(addresses, "LNRO0005:01"), Some(0xc000_1000));
        assert_eq!(address_of(addresses, "LNRO0005:0"), None);
        assert_eq!(address_of(addresses, "unbind"), None);
    }
}
