//! Policies: pure state machines that decide which vCPU runs on which slot, and until when.
//!
//! A driver tells a policy what happened and when, and does what it decides. The same objects serve the threads of a
//! [`domain`](crate::domain), simulations and property tests, so a policy has no clock, no thread, no I/O, no log and
//! no randomness, and allocates only in [`Policy::add`].
//!
//! # What a policy sees of a vCPU
//!
//! | Call | The vCPU was | and is afterwards |
//! |---|---|---|
//! | [`Policy::add`] | unknown | blocked |
//! | [`Policy::wake`] | blocked | on an idle slot, queued, or held back, as the [`Placement`] says |
//! | [`Policy::next`] that returns its lease | on this slot, or queued | on this slot |
//! | [`Policy::next`] with [`Why::Block`] | on this slot | blocked |
//! | [`Policy::next`] with [`Why::Retire`] | on this slot | unknown |
//! | [`Policy::next`] otherwise, without its lease | on this slot | queued, or held back if [`Decision::held`] is set |
//! | [`Policy::tick`] that returns it | held back | on an idle slot or queued |
//! | [`Policy::remove`] | anything but running | unknown |
//!
//! A policy must give a lease that ends after the time of the question, must not leave a slot idle while a vCPU is
//! queued, and must see to it that some slot asks again while a vCPU waits: by a lease that ends, or by a kick.
//!
//! # Contract with the driver
//! * Times never go back.
//! * [`Policy::next`] is called for a slot by the thread that runs it, once for each stop of the vCPU there. Its answer
//!   is what the slot does next. [`Policy::wake`] is called for blocked vCPUs only, and [`Policy::remove`] for vCPUs
//!   that do not run.
//! * Time itself is an event for a policy that holds vCPUs back: by [`Policy::alarm`], looked at after every other
//!   call, the driver calls [`Policy::tick`] until it says `None`.
//! * After [`Placement::Preempt`] or a [`Decision::kick`] the driver sees to it that the named slot asks soon. One
//!   question more than needed does no harm.
//! * Calls never overlap: a driver holds one lock around all of them.
//!
//! # Adding one to this crate
//! Write its file in this folder, and export it here with a row in [`BUILT_IN`]. The properties that hold of any policy
//! are tested from that list.

mod boxed;
mod built_in;
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
mod travel;
mod yield_counts;

pub use built_in::BuiltIn;
pub(crate) use capped::Budget;
pub use capped::Capped;
pub use contract::Policy;
pub use credit2::Credit2;
pub use decision::{Decision, Lease, Placement, Resumed, Throttled, Why};
pub use freelist::Freelist;
pub use goodness::Goodness;
pub use o1::O1;
pub use rsdl::Rsdl;
pub use travel::{Front, Progress, Spare, Traveller};
pub use yield_counts::YieldCounts;

use crate::time::Nanos;

/// The interval of the free list's turns, as of `rsdl`'s quotas: 6 ms.
const INTERVAL: Nanos = Nanos::from_millis(6);

/// Every policy of this crate. Tests of what must hold of any policy read this list, so a new policy gets a row here.
pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "rsdl",
        new: |slots| Box::new(Rsdl::new(rsdl::RsdlConfig::default(), slots)),
        longest_lease: rsdl::LONGEST_LEASE,
    },
    BuiltIn { name: "freelist", new: |slots| Box::new(Freelist::new(INTERVAL, slots)), longest_lease: INTERVAL },
    BuiltIn { name: "o1", new: |slots| Box::new(O1::new(slots)), longest_lease: o1::LONGEST_LEASE },
    BuiltIn {
        name: "goodness",
        new: |slots| Box::new(Goodness::new(goodness::YieldBugs::default(), slots)),
        longest_lease: goodness::LONGEST_LEASE,
    },
    BuiltIn { name: "credit2", new: |slots| Box::new(Credit2::new(slots)), longest_lease: credit2::LONGEST_LEASE },
];
