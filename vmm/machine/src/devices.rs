//! Devices of virtual machines.
//!
//! [`virtio`] is the transport of all devices. Unikernels have [`net`]. Linux guests have [`net`], [`block`],
//! [`console`], [`entropy`] and [`vsock`].

pub mod block;
pub mod console;
pub mod entropy;
mod mmio;
pub mod net;
pub mod virtio;
pub mod vsock;

pub use mmio::{DeviceError, MmioDevice, Written};

pub(crate) use mmio::PendingWrite;
