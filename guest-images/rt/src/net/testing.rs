//! A network device for tests: registers without a machine, and the device's side of the rings, operated by hand.
#![allow(unsafe_code, reason = "a device reads and writes the driver's memory by address")]

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::mem::MaybeUninit;

use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{PhysAddr, Result};

const RING: u32 = 64;
/// `VRING_USED_F_NO_NOTIFY`.
const NO_NOTIFY: u16 = 1;

/// The addresses of a queue: descriptors, available ring, used ring.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    descriptors: PhysAddr,
    available: PhysAddr,
    used: PhysAddr,
}

#[derive(Debug, Default)]
struct State {
    places: [Place; 2],
    notified: Vec<u16>,
    /// Serve the transmit queue when it is notified, as the monitor does.
    serves: bool,
    sent: usize,
}

/// A device, shared by the driver and its test.
#[derive(Debug, Clone, Default)]
pub(super) struct Fake(Rc<RefCell<State>>);

impl Fake {
    /// A device that empties its transmit queue when it is notified.
    pub(super) fn that_serves() -> Self {
        let fake = Self::default();
        fake.0.borrow_mut().serves = true;
        fake
    }

    /// The queues that the driver has notified since the last call.
    pub(super) fn notified(&self) -> Vec<u16> {
        core::mem::take(&mut self.0.borrow_mut().notified)
    }

    /// Frames taken out of the transmit queue so far.
    pub(super) fn sent(&self) -> usize {
        self.0.borrow().sent
    }

    /// Sets whether the device wants to know what is put into a queue.
    pub(super) fn wants_to_know(&self, queue: u16, wants: bool) {
        let used = self.0.borrow().places[usize::from(queue)].used;
        // SAFETY: the driver's used ring, which starts with its flags.
        unsafe { (used as *mut u16).write_volatile(if wants { 0 } else { NO_NOTIFY }) }
    }

    /// Chains that the driver has made available in a queue so far.
    pub(super) fn offered(&self, queue: u16) -> u16 {
        let available = self.0.borrow().places[usize::from(queue)].available;
        // SAFETY: the driver's available ring; its index follows the flags.
        unsafe { (available as *const u16).add(1).read_volatile() }
    }

    /// Gives all chains of the transmit queue back, as if their frames had left.
    fn serve_transmit(&self) {
        let offered = self.offered(1);
        let mut state = self.0.borrow_mut();
        let Place { available, used, .. } = state.places[1];
        let (available, used) = (available as *const u16, used as *mut u16);
        // SAFETY: the driver's rings, of `RING` entries: two half-words, then half-words or pairs of words.
        unsafe {
            let mut done = used.add(1).read_volatile();
            while done != offered {
                let at = usize::from(done % RING as u16);
                let head = available.add(2 + at).read_volatile();
                used.add(2).cast::<u32>().add(2 * at).write_volatile(head.into());
                done = done.wrapping_add(1);
                state.sent += 1;
            }
            used.add(1).write_volatile(done);
        }
    }
}

impl Transport for Fake {
    fn device_type(&self) -> DeviceType {
        DeviceType::Network
    }

    fn read_device_features(&mut self) -> u64 {
        u64::MAX
    }

    fn write_driver_features(&mut self, _: u64) {}

    fn max_queue_size(&mut self, _: u16) -> u32 {
        RING
    }

    fn notify(&mut self, queue: u16) {
        self.0.borrow_mut().notified.push(queue);
        if queue == 1 && self.0.borrow().serves {
            self.serve_transmit();
        }
    }

    fn get_status(&self) -> DeviceStatus {
        DeviceStatus::FEATURES_OK
    }

    fn set_status(&mut self, _: DeviceStatus) {}

    fn set_guest_page_size(&mut self, _: u32) {}

    fn requires_legacy_layout(&self) -> bool {
        false
    }

    fn queue_set(&mut self, queue: u16, _: u32, descriptors: PhysAddr, available: PhysAddr, used: PhysAddr) {
        self.0.borrow_mut().places[usize::from(queue)] = Place { descriptors, available, used };
    }

    fn queue_unset(&mut self, _: u16) {}

    fn queue_used(&mut self, queue: u16) -> bool {
        self.0.borrow().places[usize::from(queue)].descriptors != 0
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        InterruptStatus::empty()
    }

    fn read_config_generation(&self) -> u32 {
        0
    }

    /// All zero: a MAC that smoltcp accepts.
    fn read_config_space<T>(&self, _: usize) -> Result<T> {
        // SAFETY: the trait asks for a type of which any bytes are a value.
        Ok(unsafe { MaybeUninit::zeroed().assume_init() })
    }

    fn write_config_space<T>(&mut self, _: usize, _: T) -> Result<()> {
        Ok(())
    }
}
