//! Virtual machines on KVM. A [`Domain`](stile_sched::Domain) schedules their vCPUs.
//!
//! | module | concern |
//! |---|---|
//! | [`unikernel`] | VMs of guest programs that run without an operating system |
//! | [`linux`] | VMs that boot Linux |
//! | [`vm`] | what both kinds share: vCPUs, status, end, console |
//! | [`devices`] | virtio devices, and the transport below them |
//! | [`halt`] | how the vCPUs of Linux wait inside KVM |
//!
//! # The life of a VM
//! 1. [`unikernel::Vm::create`] or [`linux::LinuxVm::create`] makes memory, boot structures and vCPUs, and adds the
//!    vCPUs to a domain. No guest code runs yet.
//! 2. [`vm::VcpuSet::start`] lets the vCPUs run. The domain decides when each one does.
//! 3. The guest ends, breaks a rule, or is stopped by [`vm::VcpuSet::stop`]. The first of these is the VM's
//!    [`vm::Outcome`].
//! 4. [`vm::VcpuSet::wait`] returns that outcome when all vCPUs have left the domain. Dropping the VM stops it and
//!    waits.
//!
//! A VM needs KVM and a domain, nothing else: `examples/one_vm.rs` runs one.

pub mod devices;
pub mod halt;
pub mod linux;
mod spin;
pub mod unikernel;
pub mod vm;
