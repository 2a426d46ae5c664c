//! TCP over virtio-net, for guests of one vCPU.
//!
//! The driver ([`Nic`]) moves frames, smoltcp does ARP, IPv4 and TCP, and [`Stack`] offers calls that block. While
//! nothing can progress the vCPU idles, until a frame comes, a timer of TCP is due, or the caller's deadline.
//!
//! An exit costs as much as copying many frames. So frames to be sent stay in the guest until the vCPU has nothing left
//! to do, and the doorbell by which it then idles announces all of them: a program that asks and waits for the answer
//! exits once. Frames that came are handled before anything is sent in answer, so that an acknowledgement mostly
//! travels with the program's reply.

mod address;
mod device;
mod hal;
mod nic;
mod stack;
#[cfg(test)]
mod testing;

pub use address::{Address, BadAddress};
pub use device::device;
pub use nic::{DriverError, FRAME_BYTES, Nic};
pub use stack::{Listener, NetError, Park, Stack, Stream};

/// The transport's types, from virtio-drivers.
pub mod transport {
    pub use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport, mmio::MmioTransport};
}
