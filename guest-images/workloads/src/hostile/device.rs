//! The registers of the VM's network device (virtio-mmio, version 2), without a driver that would keep its rules.

use super::queue::Queue;
use super::raw::{Width, load, store};

/// Size of the register window (unit: bytes).
pub(super) const WINDOW: u64 = 0x1000;
/// `VIRTIO_F_VERSION_1`, without which the device takes no driver.
pub(super) const VERSION_1: u64 = 1 << 32;

pub(super) const DRIVER_FEATURES: u64 = 0x20;
pub(super) const DRIVER_FEATURES_SEL: u64 = 0x24;
pub(super) const QUEUE_SEL: u64 = 0x30;
pub(super) const QUEUE_NUM: u64 = 0x38;
pub(super) const QUEUE_READY: u64 = 0x44;
pub(super) const QUEUE_NOTIFY: u64 = 0x50;
pub(super) const STATUS: u64 = 0x70;
pub(super) const QUEUE_DESC: u64 = 0x80;
pub(super) const QUEUE_AVAIL: u64 = 0x90;
pub(super) const QUEUE_USED: u64 = 0xa0;
const CONFIG: u64 = 0x100;

/// Values of the status register, in the order of the initialisation.
pub(super) const STATUSES: [u32; 4] = [1, 3, 11, 15];

/// A network device.
#[derive(Debug, Clone, Copy)]
pub(super) struct Device(u64);

impl Device {
    /// The device with registers from this address.
    pub(super) fn at(base: u64) -> Self {
        Self(base)
    }

    /// Address of a register.
    pub(super) fn register(self, offset: u64) -> u64 {
        self.0 + offset
    }

    pub(super) fn write(self, offset: u64, value: u32) {
        store(self.register(offset), Width::Long, value.into());
    }

    /// The device's MAC.
    pub(super) fn mac(self) -> [u8; 6] {
        [0, 1, 2, 3, 4, 5].map(|byte| load(self.register(CONFIG + byte), Width::Byte) as u8)
    }

    /// Resets the device and takes it to work with these queues. Whether it works is not checked.
    pub(super) fn bring_up(self, features: u64, queues: &[&Queue]) {
        let [acknowledge, driver, features_ok, driver_ok] = STATUSES;
        for status in [0, acknowledge, driver] {
            self.write(STATUS, status);
        }
        for (select, half) in [(0, features as u32), (1, (features >> 32) as u32)] {
            self.write(DRIVER_FEATURES_SEL, select);
            self.write(DRIVER_FEATURES, half);
        }
        self.write(STATUS, features_ok);
        queues.iter().for_each(|queue| self.set_up(queue));
        self.write(STATUS, driver_ok);
    }

    fn set_up(self, queue: &Queue) {
        self.write(QUEUE_SEL, queue.number.into());
        self.write(QUEUE_NUM, queue.size.into());
        let places = [(QUEUE_DESC, queue.descriptors), (QUEUE_AVAIL, queue.available), (QUEUE_USED, queue.used)];
        for (register, address) in places {
            self.write(register, address as u32);
            self.write(register + 4, (address >> 32) as u32);
        }
        self.write(QUEUE_READY, 1);
    }

    /// Tells the device of a queue's chains.
    pub(super) fn notify(self, queue: &Queue) {
        self.write(QUEUE_NOTIFY, queue.number.into());
    }
}
