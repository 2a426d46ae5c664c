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

pub mod attributes;
mod deadlines;
pub mod domain;
pub mod histogram;
pub mod ids;
pub mod kick;
pub mod ledger;
pub mod lock;
#[cfg(all(test, shuttle))]
mod model;
pub mod policy;
#[cfg(test)]
mod policy_tests;
pub mod sim;
pub mod slot;
mod sync;
#[cfg(test)]
#[cfg_attr(any(loom, shuttle), allow(dead_code, reason = "most tests that use it are not modelled"))]
mod testing;
pub mod time;
pub mod topology;
pub mod vcpu;
pub mod wait;

pub use attributes::{Attributes, Class};
pub use domain::Domain;
pub use ids::{Nice, Slot, VcpuId};
pub use policy::{Lease, Policy};
pub use time::{Nanos, Time};
pub use topology::Topology;
pub use vcpu::{Presence, Stop, Vcpu};
pub use wait::{Wait, Yield};
