//! What tests of domains on a single CPU share.

use rustix::thread::{CpuSet, sched_getaffinity};
use stile_sched::policy::Rsdl;
use stile_sched::policy::rsdl::RsdlConfig;

/// The last CPU that this process may use.
pub(crate) fn a_cpu() -> usize {
    let allowed = sched_getaffinity(None).expect("a process has an affinity");
    (0..CpuSet::MAX_CPU).rfind(|&cpu| allowed.is_set(cpu)).expect("a process may use a CPU")
}

/// `rsdl` for one slot.
pub(crate) fn policy() -> Box<Rsdl> {
    Box::new(Rsdl::new(RsdlConfig::default(), 1))
}
