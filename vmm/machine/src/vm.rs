//! What both kinds of virtual machine share: a name, vCPUs in a domain, text output, and an end.
//!
//! [`VmStatus`] is shared by the vCPUs and the owner of the VM: the domain, the milestones reached, the outcome, and
//! the accounts of vCPUs that have ended. [`VcpuSet`] is the owner's handle: it starts all vCPUs together, waits for
//! them, and stops them when it is dropped. [`unikernel`](crate::unikernel) and [`linux`](crate::linux) add memory,
//! devices and the state in which vCPUs start.

mod between_turns;
pub mod clock;
pub mod console;
pub(crate) mod cpuid;
pub(crate) mod host_exits;
mod make;
mod outcome;
mod panics;
mod pausing;
mod payer;
mod setup;
mod status;
mod vcpu_set;

pub use cpuid::HostFeatures;
pub use make::MakeError;
pub use outcome::{Fault, FaultKind, Outcome};
pub use pausing::PauseError;
pub use payer::{PaidBy, Payer};
pub use setup::kickable;
pub use status::VmStatus;
pub use vcpu_set::{RetiredVcpu, VcpuSet};

pub(crate) use between_turns::between_turns;
pub(crate) use make::{check_vcpus, map, refused, vm_with};
pub(crate) use outcome::has_error_code;
pub(crate) use panics::caught;
pub(crate) use pausing::Pausable;
pub(crate) use setup::follow_host;

use stile_sched::Nanos;

/// A range of guest-physical addresses, half open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

/// A virtual machine of either kind: to run it, and to read its figures.
pub trait VirtualMachine: Send + Sync {
    /// Its vCPUs.
    fn vcpu_set(&self) -> &VcpuSet;

    /// The wait (steal time) that the guest was last told for a vCPU; `None` where guests are told nothing.
    ///
    /// # Panics
    /// If the VM has no such vCPU.
    fn told_wait(&self, _vcpu: u32) -> Option<Nanos> {
        None
    }

    /// The named figures that the workload reported by a doorbell, in the order of the reports.
    fn results(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}
