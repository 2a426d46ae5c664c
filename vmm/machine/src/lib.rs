//! Virtual machines on KVM whose vCPUs a [`Domain`](stile_sched::Domain) schedules.
//!
//! [`unikernel`] makes VMs of built-in or own guest programs that run without a kernel, [`linux`] makes VMs that boot Linux.
//! [`vm`] is what both kinds share: their vCPUs, their status, their end, and the console. [`devices`] are virtio devices and
//! the transport below them. [`halt`] is how the vCPUs of Linux wait inside KVM.
//!
//! A VM needs KVM and a domain, nothing else: `examples/one_vm.rs` runs one.

pub mod devices;
pub mod halt;
pub mod linux;
pub mod unikernel;
pub mod vm;
