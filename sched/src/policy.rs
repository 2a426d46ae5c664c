//! Policies: pure state machines that decide who runs.
//!
//! A driver tells a policy what happened and when, and does what it decides. The same objects serve the threads of a
//! [`domain`](crate::domain), simulations and property tests, so a policy has no clock, no thread, no I/O, no log and no
//! randomness, and allocates only in [`Policy::add`].
//!
//! # Contract with the driver
//! * Times never go back.
//! * [`Policy::next`] is called for a slot by whoever runs it, once per stop of the vCPU there; its answer is what the
//!   slot does next. [`Policy::wake`] is called for blocked vCPUs only, and [`Policy::remove`] for vCPUs that do not run.
//! * Time itself is an event for a policy that holds vCPUs back: by [`Policy::alarm`], looked at after every other call, the
//!   driver calls [`Policy::tick`] until it says `None`.
//! * After [`Placement::Preempt`] or a [`Decision::kick`] the driver sees to it that the named slot asks soon; one more
//!   question than needed does no harm.

pub mod boxed;
pub(crate) mod capped;
mod contract;
pub mod credit2;
mod decision;
mod freelist;
pub mod goodness;
pub mod o1;
mod prefetch;
mod queue;
pub mod rsdl;
pub(crate) mod slotset;
mod yield_counts;

pub use capped::Capped;
pub use contract::Policy;
pub use credit2::Credit2;
pub use decision::{Decision, Lease, Placement, Resumed, Throttled, Why};
pub use freelist::Freelist;
pub use goodness::Goodness;
pub use o1::O1;
pub use rsdl::Rsdl;
pub use yield_counts::YieldCounts;
