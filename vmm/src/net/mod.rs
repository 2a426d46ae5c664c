//! The network between guests: an in-process switch and the virtio-net device that each VM has on it.
//!
//! A frame travels on the thread of the vCPU that sent it: out of the sender's ring into one bounce buffer, through
//! the [`Switch`], into the receiver's ring. The receiving VM is then told by its [`Notify`](crate::virtio::Notify).
//! There is no way out to the host's network.
//!
//! Lock order: a device takes a frame out under its own lock, releases it, and only then is the receiver's lock taken.
//! The switch's table lock is held for look-ups and changes alone, never while a frame is delivered. So no thread ever
//! holds two devices' locks, and A sending to B while B sends to A cannot deadlock.

mod address;
mod counters;
mod device;
mod events;
mod frame;
mod guest;
mod receive;
mod switch;
mod transmit;

pub use address::{Mac, PREFIX_LENGTH, PortNumber};
pub use counters::{DropReason, Drops, PortStats};
pub use device::NetDevice;
pub use events::VmEvents;
pub use frame::{Frame, HEADER_BYTES, MAX_FRAME, MIN_FRAME};
pub use guest::create_vm;
pub use receive::WAITING_MAX;
pub use switch::{AttachError, Delivery, Port, Sink, Switch, Wakes};
