//! Sockets between host and guest: virtio-vsock (virtio 1.2, section 5.10). On the host's side they are unix sockets.
//!
//! - A guest that connects to port P of the host (CID 2) reaches the program that listens on the unix socket `PATH_P`.
//! - A host program connects to the unix socket `PATH` and writes `CONNECT P\n`. It reads `OK PORT\n` when a program
//!   that listens on port P in the guest has accepted, and end of file if there is none.
//! - Within stile itself, the guest's first connection to one port can lead to the other end of a pair
//!   ([`HostSocket::inside`]).
//!
//! There are streams only. Each connection has room for 64 KiB that the guest sent and the host program has not read.
//! What the host program sent stays in its unix socket until the guest has room. So memory is bounded whichever side is
//! slow, and a connection that does not move does not hold up the others. All VMs have the CID 3, because addresses are
//! private to a VM.
//!
//! The table of connections (`table`) knows no queue. A connection (`connection`) knows no other connection. The device
//! (`device`) moves packets between queues and table. The unix sockets are watched edge by edge: that a socket can be
//! read or written is remembered with its connection until the connection may do it.

mod connection;
mod credit;
mod device;
mod host;
mod packet;
mod table;

pub use device::VsockDevice;
pub use host::{HostSocket, VsockError};

/// CID of the host.
const HOST_CID: u64 = 2;
/// CID of the guest.
const GUEST_CID: u64 = 3;
/// Room for the guest's data in each connection (units: bytes).
const BUFFER_BYTES: u32 = 64 << 10;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
