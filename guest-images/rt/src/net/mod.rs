//! TCP over virtio-net, for guests of one vCPU.
//!
//! The driver ([`Nic`]) moves frames, smoltcp does ARP, IPv4 and TCP, and [`Stack`] offers calls that block: while
//! nothing can progress the vCPU idles, until a frame comes, a timer of TCP is due, or the caller's deadline.
//!
//! A frame that is sent waits in the transmit ring until the stack has nothing more to say, and one register write then
//! announces all of them: an exit costs as much as copying several frames. What is received is looked at before
//! anything is sent in answer, so that an acknowledgement mostly rides on the program's reply.

mod address;
mod device;
mod hal;
mod nic;
mod stack;

pub use address::{Address, BadAddress};
pub use device::device;
pub use nic::{DriverError, FRAME_BYTES, Nic};
pub use stack::{Listener, NetError, Park, Stack, Stream};

/// The transport's types, from virtio-drivers.
pub mod transport {
    pub use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport, mmio::MmioTransport};
}
