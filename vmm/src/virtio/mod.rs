//! virtio over memory-mapped registers: the transport, split rings with every access checked, and the interrupt line.
//!
//! A device ([`Device`]) never sees registers and the transport ([`MmioTransport`]) never sees buffers. Nothing in
//! here owns a thread: whatever a register access causes runs on the vCPU thread whose guest made the access, so that
//! the work is charged to that vCPU.
//!
//! What a driver does wrong is a [`Fault`]: it is counted, the first one is kept, the device asks for a reset and does
//! nothing more until it gets one. No driver can make the monitor panic or loop without end over one chain.

mod chain;
mod fault;
mod line;
mod mmio;
mod queue_regs;
mod ring;
mod status;
#[cfg(test)]
pub(crate) mod testing;

pub use chain::{ChainError, read_chain, write_chain};
pub use fault::Fault;
pub use line::{Line, Notify};
pub use mmio::{Device, MMIO_BYTES, MmioTransport};
pub use ring::Ring;
