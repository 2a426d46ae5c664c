//! The host: its CPUs, its KVM.
mod cpulist;
pub use cpulist::{CpuList, CpuListError};
