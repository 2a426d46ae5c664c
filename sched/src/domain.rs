//! The mechanism: threads, kicks and time. It tells the policy what happened and does what the policy decides. It never
//! decides which vCPU runs.
//!
//! A [`Domain`] runs vCPUs. There are three kinds. [`HostThreads`](host::HostThreads), the baseline, gives every vCPU a
//! thread and leaves the choice to the host's scheduler. [`Executors`](executors::Executors) and [`leases`] ask a
//! policy, with a thread for each pCPU or a thread for each vCPU.

mod berth;
mod carried;
mod carrier_thread;
mod contract;
mod counts;
mod cpu_meter;
mod division;
mod error;
mod events;
pub mod executors;
pub mod handover;
pub mod host;
mod host_class;
mod id_allocator;
pub mod leases;
mod ledger_lock;
mod moves;
pub mod parker;
mod pause;
mod policy_traits;
#[cfg(all(test, shuttle))]
mod shuttle_tests;
mod spin_probe;
pub mod switchable;
#[cfg(test)]
#[cfg_attr(shuttle, allow(dead_code, reason = "most tests that use it are not modelled"))]
pub(crate) mod testing;
mod thread_start;
pub mod watchdog;
mod whereabouts;

pub use contract::Domain;
pub use error::DomainError;
pub use thread_start::on_thread_start;
