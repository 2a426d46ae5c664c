//! Sockets between host and guest: virtio-vsock (virtio 1.2, section 5.10), the host's side being unix sockets.
//!
//! - A guest that connects to port P of the host (CID 2) reaches whoever listens on the unix socket `PATH_P`.
//! - A host program connects to the unix socket `PATH` and says `CONNECT P\n`; it reads `OK PORT\n` when whoever listens on
//!   port P in the guest has accepted, and end of file if nobody has.
//! - Within stile itself, the guest's first connection to one port can lead to the other end of a pair
//!   ([`HostSocket::inside`]).
//!
//! Streams only. Each connection has 64 KiB of room for what the guest sent and the host program has not read; what the
//! host program sent stays in its unix socket until the guest has room. So memory is bounded whoever is slow, and a
//! connection that does not move holds no other one up. All VMs have the CID 3: the addresses are a VM's own.
//!
//! The table of connections knows no queue (`table`), a connection knows no other one (`connection`), and the device
//! (`device`) moves packets between queues and table. The unix sockets are watched edge by edge: what can be read or
//! written is remembered with its connection until somebody may do it.

mod connection;
mod credit;
mod device;
mod host;
mod packet;
mod table;

pub use device::VsockDevice;
pub use host::{HostSocket, VsockError};

/// The host's address.
const HOST_CID: u64 = 2;
/// The guest's.
const GUEST_CID: u64 = 3;
/// Room for what the guest sent, in each connection (units: bytes).
const BUFFER_BYTES: u32 = 64 << 10;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
