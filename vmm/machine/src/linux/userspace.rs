//! Interrupt controllers in user space: KVM runs the guest's instructions, and the [model](super::apic) is all that the
//! VM has of APICs.
//!
//! So every halt is an exit, and every timer and every interrupt between vCPUs is made here. The scheduler sees them
//! all: a halt is [`Stop::Idle`](stile_sched::Stop::Idle) until the timer's deadline, and an interrupt wakes its vCPU.
//! No vCPU waits inside KVM, so executors can carry these vCPUs.
//!
//! | module | concern |
//! |---|---|
//! | [`apics`] | the APICs of a VM, and which thread may touch what |
//! | [`vcpu`] | a vCPU: what it does next, KVM_RUN, and the work of each exit |
//! | [`inject`] | interrupts, NMIs and the registers of a start, on their way into KVM |
//! | [`msrs`] | which accesses to model-specific registers come out of KVM |
//! | [`pv_eoi`] | ends of interrupts without an exit |
//! | [`alarm`] | makes a vCPU leave its guest when its timer fires |
//! | [`trial`] | whether this KVM lets writes of the TSC deadline out |

mod alarm;
mod apics;
mod inject;
mod msrs;
mod pv_eoi;
pub(super) mod trial;
mod vcpu;

pub(super) use apics::{Apics, Pin};
pub(super) use inject::Pristine;
pub(super) use msrs::let_out;
pub(super) use vcpu::UserVcpu;
