//! The virtio-net driver: one queue pair of virtio-drivers' `VirtQueue`, and smoltcp's device over it.
//!
//! It differs from that crate's own network driver in two ways that make exits rare. Frames are announced in batches,
//! by the idle doorbell ([`Nic::unannounced`]) or, if the vCPU does not idle, by the device's register
//! ([`Nic::flush`]). And the device may interrupt only while the vCPU idles ([`Nic::arm`]). The second needs the rings'
//! flags rather than event indexes, so event indexes are not negotiated.
//!
//! Invariants: each buffer is either in its ring or free; every posted receive buffer is whole.
#![allow(unsafe_code, reason = "buffers are lent to the device")]

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::mem;
use core::sync::atomic::{Ordering, fence};

use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use stile_abi::Queues;
use virtio_drivers::queue::VirtQueue;
use virtio_drivers::transport::{DeviceStatus, DeviceType, Transport};

use super::hal::Identity;

/// Longest Ethernet frame: 1500 bytes behind its header (units: bytes).
pub const FRAME_BYTES: usize = 1514;
/// `virtio_net_hdr_v1` before each frame (units: bytes).
const HEADER_BYTES: usize = 12;
/// Descriptors of each ring: a 64 KiB window in full frames, with room for acknowledgements.
const RING: usize = 64;
const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;
/// `VIRTIO_NET_F_MAC` and `VIRTIO_F_VERSION_1`.
const FEATURES: u64 = 1 << 5 | 1 << 32;

type Buffer = Box<[u8; HEADER_BYTES + FRAME_BYTES]>;

/// Why there is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverError {
    /// The registers are not those of a network device.
    NotANetwork,
    /// The device lacks the features that the driver needs: a MAC, and virtio 1.0.
    Features,
    /// The queues or the configuration cannot be used.
    Device(virtio_drivers::Error),
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANetwork => write!(f, "the device is no network device"),
            Self::Features => write!(f, "the device lacks a MAC or virtio 1.0"),
            Self::Device(cause) => write!(f, "the device cannot be used: {cause}"),
        }
    }
}

impl From<virtio_drivers::Error> for DriverError {
    fn from(cause: virtio_drivers::Error) -> Self {
        Self::Device(cause)
    }
}

/// A network device.
pub struct Nic<T: Transport> {
    transport: T,
    mac: [u8; 6],
    receive: ReceiveRing,
    transmit: TransmitRing,
}

impl<T: Transport> Nic<T> {
    /// Takes the device from reset to work.
    pub fn new(mut transport: T) -> Result<Self, DriverError> {
        if transport.device_type() != DeviceType::Network {
            return Err(DriverError::NotANetwork);
        }
        let mut status = DeviceStatus::ACKNOWLEDGE | DeviceStatus::DRIVER;
        transport.set_status(DeviceStatus::empty());
        transport.set_status(status);
        if transport.read_device_features() & FEATURES != FEATURES {
            return Err(DriverError::Features);
        }
        transport.write_driver_features(FEATURES);
        status |= DeviceStatus::FEATURES_OK;
        transport.set_status(status);
        if !transport.get_status().contains(DeviceStatus::FEATURES_OK) {
            return Err(DriverError::Features);
        }
        let mac = read_mac(&transport)?;
        let receive = ReceiveRing::new(VirtQueue::new(&mut transport, RECEIVE, false, false)?)?;
        let transmit = TransmitRing::new(VirtQueue::new(&mut transport, TRANSMIT, false, false)?);
        transport.set_status(status | DeviceStatus::DRIVER_OK);
        Ok(Self { transport, mac, receive, transmit })
    }

    /// The device's MAC.
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// The queues that were added to since the last call, and that the device wants to be told about. The caller has to
    /// announce them.
    #[must_use]
    pub fn unannounced(&mut self) -> Queues {
        // Orders the rings' indexes before the read of the device's flag: the device changes its flag, fences, and
        // reads the index.
        fence(Ordering::SeqCst);
        let mut queues = Queues::NONE;
        if mem::take(&mut self.transmit.unannounced) && self.transmit.queue.should_notify() {
            queues = queues.with(TRANSMIT);
        }
        if mem::take(&mut self.receive.unannounced) && self.receive.queue.should_notify() {
            queues = queues.with(RECEIVE);
        }
        queues
    }

    /// Announces these queues at once, with an exit for each.
    pub fn flush(&mut self) {
        for queue in self.unannounced().iter() {
            self.transport.notify(queue);
        }
    }

    /// Asks to be interrupted by the next frame. Returns `false` if there is a frame already, which then does not
    /// interrupt.
    pub fn arm(&mut self) -> bool {
        self.receive.queue.set_dev_notify(true);
        // Orders the flag before the look: the device moves its index, fences, and reads the flag.
        fence(Ordering::SeqCst);
        !self.receive.queue.can_pop()
    }

    /// Frames do not interrupt from now on.
    pub fn disarm(&mut self) {
        self.receive.queue.set_dev_notify(false);
    }

    /// Whether a frame can be sent. The monitor sends on announcement, so that a full ring is empty after it.
    fn make_room(&mut self) -> bool {
        if self.transmit.free.is_empty() {
            self.transmit.reclaim();
        }
        if self.transmit.free.is_empty() {
            self.flush();
            self.transmit.reclaim();
        }
        !self.transmit.free.is_empty()
    }
}

fn read_mac(transport: &impl Transport) -> Result<[u8; 6], DriverError> {
    let [a, b, c, d] = transport.read_config_space::<u32>(0)?.to_le_bytes();
    let [e, f] = transport.read_config_space::<u16>(4)?.to_le_bytes();
    Ok([a, b, c, d, e, f])
}

fn buffers() -> Vec<Buffer> {
    (0..RING).map(|_| Box::new([0; HEADER_BYTES + FRAME_BYTES])).collect()
}

struct ReceiveRing {
    queue: VirtQueue<Identity, RING>,
    buffers: Vec<Buffer>,
    /// Which buffer a descriptor lends.
    lent: [usize; RING],
    unannounced: bool,
}

impl ReceiveRing {
    fn new(mut queue: VirtQueue<Identity, RING>) -> Result<Self, DriverError> {
        queue.set_dev_notify(false);
        let mut ring = Self { queue, buffers: buffers(), lent: [0; RING], unannounced: false };
        for buffer in 0..RING {
            ring.post(buffer)?;
        }
        Ok(ring)
    }

    fn post(&mut self, buffer: usize) -> Result<(), virtio_drivers::Error> {
        // SAFETY: the buffer is touched again only after `take` has taken its descriptor back, and lives as long as
        // the ring.
        let token = unsafe { self.queue.add(&[], &mut [&mut self.buffers[buffer][..]]) }?;
        self.lent[usize::from(token)] = buffer;
        self.unannounced = true;
        Ok(())
    }

    /// Takes the next filled buffer back. Returns its number and the length of its frame.
    fn take(&mut self) -> Option<(usize, usize)> {
        let token = self.queue.peek_used()?;
        let buffer = *self.lent.get(usize::from(token))?;
        // SAFETY: `lent` says that this is the buffer the descriptor was made for.
        let length = unsafe { self.queue.pop_used(token, &[], &mut [&mut self.buffers[buffer][..]]) }.ok()?;
        Some((buffer, (length as usize).saturating_sub(HEADER_BYTES).min(FRAME_BYTES)))
    }
}

struct TransmitRing {
    queue: VirtQueue<Identity, RING>,
    buffers: Vec<Buffer>,
    lent: [usize; RING],
    free: Vec<usize>,
    unannounced: bool,
}

impl TransmitRing {
    fn new(mut queue: VirtQueue<Identity, RING>) -> Self {
        // Sent buffers are reclaimed when room is needed. No code waits for them.
        queue.set_dev_notify(false);
        Self { queue, buffers: buffers(), lent: [0; RING], free: (0..RING).collect(), unannounced: false }
    }

    fn reclaim(&mut self) {
        while let Some(token) = self.queue.peek_used() {
            let Some(&buffer) = self.lent.get(usize::from(token)) else { return };
            // SAFETY: `lent` says that this is the buffer the descriptor was made for; the device only read it.
            let popped = unsafe { self.queue.pop_used(token, &[&self.buffers[buffer][..]], &mut []) };
            if popped.is_err() {
                return;
            }
            self.free.push(buffer);
        }
    }

    fn send<R>(&mut self, length: usize, fill: impl FnOnce(&mut [u8]) -> R) -> R {
        let buffer = self.free.pop().expect("a token is made only when a buffer is free");
        let bytes = &mut self.buffers[buffer];
        let filled = fill(&mut bytes[HEADER_BYTES..][..length]);
        // SAFETY: the buffer is touched again only after `reclaim` has taken its descriptor back.
        let token = unsafe { self.queue.add(&[&bytes[..HEADER_BYTES + length]], &mut []) }
            .expect("there are as many descriptors as buffers");
        self.lent[usize::from(token)] = buffer;
        self.unannounced = true;
        filled
    }
}

impl<T: Transport> phy::Device for Nic<T> {
    type RxToken<'a>
        = RxToken<'a>
    where
        T: 'a;
    type TxToken<'a>
        = TxToken<'a>
    where
        T: 'a;

    fn receive(&mut self, _: Instant) -> Option<(RxToken<'_>, TxToken<'_>)> {
        if !self.receive.queue.can_pop() || !self.make_room() {
            return None;
        }
        Some((RxToken(&mut self.receive), TxToken(&mut self.transmit)))
    }

    fn transmit(&mut self, _: Instant) -> Option<TxToken<'_>> {
        if self.make_room() { Some(TxToken(&mut self.transmit)) } else { None }
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = FRAME_BYTES;
        capabilities
    }
}

/// A frame that was received.
pub struct RxToken<'a>(&'a mut ReceiveRing);

/// Room for a frame to be sent.
pub struct TxToken<'a>(&'a mut TransmitRing);

impl phy::RxToken for RxToken<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        let Some((buffer, length)) = self.0.take() else { return read(&[]) };
        let result = read(&self.0.buffers[buffer][HEADER_BYTES..][..length]);
        self.0.post(buffer).expect("the descriptor has just become free");
        result
    }
}

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        self.0.send(length, fill)
    }
}

#[cfg(test)]
mod tests;
