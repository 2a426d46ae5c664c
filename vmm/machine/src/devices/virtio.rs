//! virtio over memory-mapped registers: the transport, split rings with every access checked, and the interrupt line.
//!
//! A device ([`Device`]) never sees registers, and the transport ([`MmioTransport`]) never sees buffers. In a
//! unikernel's VM all work that a register access causes runs on the thread of the vCPU that made the access, so that
//! the work is charged to that vCPU. In a Linux guest's VM it runs on the VM's [`Worker`], which the devices'
//! [`Attachment`]s share.
//!
//! A mistake of a driver is a [`Fault`]. It is counted, and the first one is kept. The device asks for a reset and does
//! nothing until it gets one. No driver can make the monitor panic, or loop without end over one chain.

mod attachment;
mod budget;
mod buffers;
mod chain;
#[cfg(test)]
pub(crate) mod cost;
mod fault;
#[cfg(test)]
pub(crate) mod fuzz;
mod interrupt;
mod line;
mod mmio;
#[cfg(all(test, shuttle))]
mod model;
mod queue_regs;
mod requests;
mod ring;
mod status;
mod sync;
#[cfg(test)]
pub(crate) mod testing;
mod worker;

pub use attachment::{Attachment, AttachmentMaker};
pub use buffers::Buffers;
pub use chain::{Chain, ChainError, Request, read_chain, write_chain};
pub use fault::Fault;
pub use interrupt::Interrupt;
pub use line::{Line, Notify, Tell};
pub use mmio::{Device, MMIO_BYTES, MmioTransport, Progress};
pub use requests::{Answer, RequestQueue};
pub use ring::Ring;
pub use worker::Worker;

pub(crate) use budget::Budget;
