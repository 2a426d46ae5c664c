//! What every virtual machine has, whatever runs in it: a name, vCPUs in a domain, and an end.
//!
//! [`Life`] is what vCPUs and whoever runs them share: how the VM ends, by whom it is carried, what became of its time.
//! [`Crew`] is the vCPUs as their owner holds them: started together, waited for, ended at the latest when it is dropped.
//! Both kinds of VM, [`vm`](crate::vm) for unikernels and [`linux`](crate::linux) for Linux, are made of these and add
//! memory, devices and the way in.

mod crew;
mod life;
mod make;
mod outcome;

pub use crew::{Crew, Grave};
pub use life::Life;
pub use make::MakeError;
pub use outcome::{Fault, FaultKind, Outcome};

pub(crate) use make::{check_vcpus, map, refused, vm_with};
pub(crate) use outcome::has_error_code;

use stile_sched::Nanos;

/// A range of guest-physical addresses, half open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
}

/// A virtual machine of either kind, as those see it who run VMs and tell of them.
pub trait Machine: Send + Sync {
    /// Its vCPUs.
    fn crew(&self) -> &Crew;

    /// The wait that a vCPU was told of last; `None` where guests are told nothing.
    ///
    /// # Panics
    /// If the VM has no such vCPU.
    fn told_wait(&self, _vcpu: u32) -> Option<Nanos> {
        None
    }

    /// The figures that its workload reported by a doorbell, in order.
    fn results(&self) -> Vec<(String, u64)> {
        Vec::new()
    }
}
