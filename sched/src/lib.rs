//! stile's scheduler: which vCPU runs on which host CPU, and the threads that carry it out.
//!
//! # Words
//! * **pCPU** — a host CPU that the scheduler owns. Its *slot* is the right to run a vCPU there.
//! * **vCPU** — a guest CPU, of any VM; the scheduler knows it as a [`Vcpu`] that can be run until it stops.
//! * **domain** — the pCPUs and all vCPUs that one scheduler serves.
//!
//! # Shape
//! A [`policy`] is a pure state machine: events in, decisions out, no clock, thread, lock or I/O. The [`domain`] module
//! is the mechanism: it owns threads, time and kicks, tells the policy what happened and does what it decides; it never
//! decides who runs. Nothing here knows KVM.

mod deadlines;
pub mod domain;
pub mod histogram;
pub mod ids;
pub mod ledger;
pub mod lock;
#[cfg(all(test, shuttle))]
mod model;
pub mod policy;
pub mod sim;
pub mod slot;
mod sync;
pub mod time;
pub mod topology;
pub mod vcpu;

pub use domain::{Class, Domain};
pub use ids::{Nice, Slot, VcpuId};
pub use policy::Lease;
pub use time::{Nanos, Time};
pub use topology::Topology;
pub use vcpu::{Presence, Stop, Vcpu, Wait, Yield};
