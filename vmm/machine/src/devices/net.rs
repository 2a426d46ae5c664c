//! The network between guests: a switch in this process, and the virtio-net device of each VM on it. Linux guests can
//! also have a device on a tap, which leads to the host's network.
//!
//! A frame on the switch travels on the thread of the vCPU that sent it, or on the worker of a Linux guest's VM. It is
//! copied out of the sender's ring into one bounce buffer, and from there, through the [`Switch`], into the receiver's
//! ring. The receiving VM is then told by its [`Notify`](crate::devices::virtio::Notify).
//!
//! Lock order: a device takes a frame out under its own lock and releases the lock. Only then is the receiver's lock
//! taken. The switch's table lock is held for look-ups and changes alone, never while a frame is delivered. So no
//! thread ever holds the locks of two devices, and A sending to B while B sends to A cannot deadlock.

mod address;
mod counters;
mod device;
mod events;
mod frame;
mod receive;
mod switch;
mod tap;
mod transmit;

pub use address::{Mac, PREFIX_LENGTH, PortNumber};
pub use counters::{DropReason, Drops, PortStats};
pub use device::VirtioNet;
pub use events::VmEvents;
pub use frame::{Frame, HEADER_BYTES, MAX_FRAME, MIN_FRAME};
pub use receive::WAITING_MAX;
pub use switch::device::{NetDevice, SwitchPort};
pub use switch::{AttachError, Delivery, Port, Sink, Switch, Wakes};
pub use tap::{Tap, TapDevice, TapError, TapPort};
