//! The network between guests: an in-process switch and the virtio-net device that each VM has on it; and for Linux
//! guests a device on a tap, the way to the host's network.
//!
//! A frame on the switch travels on the thread of the vCPU that sent it, of a Linux guest on its VM's worker: out of the
//! sender's ring into one bounce buffer, through the [`Switch`], into the receiver's ring. The receiving VM is then told
//! by its [`Notify`](crate::devices::virtio::Notify).
//!
//! Lock order: a device takes a frame out under its own lock, releases it, and only then is the receiver's lock taken.
//! The switch's table lock is held for look-ups and changes alone, never while a frame is delivered. So no thread ever
//! holds two devices' locks, and A sending to B while B sends to A cannot deadlock.

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
