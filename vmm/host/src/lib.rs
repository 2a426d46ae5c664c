//! The host that the guests run on: its facts, its KVM, and what follows from both.
//!
//! - [`facts`] reads what the host is, without judging it, for every report.
//! - [`kvm`] opens KVM, or says why that fails.
//! - `disturbance` measures what other work took while something was measured.
//! - [`activity`] and [`memory`] sample the host, and this process, while something is measured.
//! - [`doctor`] draws the conclusions for `stile doctor`.
//!
//! Nothing here changes the host, and no guest needs anything here to run.

pub mod activity;
mod autogroup;
pub mod costs;
pub mod cpu;
mod cpulist;
mod disturbance;
pub mod doctor;
pub mod facts;
#[cfg(test)]
mod fake;
mod judge;
pub mod kvm;
pub mod memory;
pub mod realtime;
mod report;
mod root;
mod rusage;

pub use autogroup::AutogroupsOff;
pub use costs::{Conditions, CostsError, HostCosts, MeasuredCosts};
pub use cpu::{Neighbours, allowed_cpus, topology};
pub use cpulist::{CpuList, CpuListError};
pub use disturbance::{Disturbance, DisturbanceMeter, frequency};
pub use doctor::{Diagnosis, Finding, State, diagnose};
pub use facts::{HostFacts, Live, vcpus_move_freely};
pub use kvm::{Backend, KvmUnavailable, backend, open_kvm};
pub use root::HostRoot;
pub use rusage::system_time;
