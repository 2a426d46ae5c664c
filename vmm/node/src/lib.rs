//! A node: a domain on some pCPUs, its VMs, and what can be changed while they run.
//!
//! [`Node`] makes, starts, pauses and ends VMs ([`NodeVm`]), and changes the policy, the pCPUs and the weights of VMs
//! ([`Wanted`]). All its calls may wait, so they are for threads of the control plane; no vCPU,
//! executor or device worker waits for one of them. Its `keeper` is a thread
//! that does what comes due by itself: it buries VMs that have ended, and takes back changes that nobody confirmed.
//!
//! Nothing here knows HTTP: `stile-serve` puts an API before a node, and `stile run` uses one without.

mod affinity;
mod bus;
mod changes;
mod console;
mod files;
mod flight;
mod frames;
mod gone;
mod handover;
mod images;
mod keeper;
mod lives;
mod log;
mod make;
mod networks;
mod node;
mod policy;
mod power;
mod recording;
mod scheduling;
mod vm;
mod watch;

pub use bus::{Bus, now};
pub use changes::{Guarded, Wanted};
pub use console::{KEPT, Piece, Scrollback};
pub use frames::Frames;
pub use images::{Guest, Unfit, linux_unsuited};
pub use make::{Machine, Maker};
pub use networks::{NetworkFull, Networks, Place};
pub use node::{Node, NodeOptions};
pub use vm::NodeVm;
