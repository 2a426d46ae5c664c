//! Which accesses to model-specific registers come out of KVM.
//!
//! Without an APIC in the kernel KVM refuses the x2APIC's registers, and refused accesses come out. Three registers it
//! does not refuse, so a filter does: KVM ignores writes of the TSC deadline, keeps the APIC's base address itself, and
//! would carry out the paravirtual ends of interrupts for an APIC that is not there.

use super::pv_eoi::PV_EOI;
use crate::linux::apic::local::msr;
use crate::linux::cpuid::StealTime;
use crate::linux::layout::LOCAL_APIC;
use crate::linux::{msr_exits, steal};
use kvm_ioctls::{Error, MsrExitReason, VmFd};

/// The APIC's base address and mode.
pub(super) const APIC_BASE: u32 = 0x1b;
/// Its bits: the processor boots the machine; x2APIC mode; on.
const BOOTS: u64 = 1 << 8;
const X2APIC: u64 = 1 << 10;
const ON: u64 = 1 << 11;
/// The value of [`APIC_BASE`] on a vCPU.
pub(super) fn apic_base(vcpu: u32) -> u64 {
    u64::from(LOCAL_APIC) | ON | X2APIC | if vcpu == 0 { BOOTS } else { 0 }
}

/// Lets these accesses out, and those to the register for steal time if the monitor answers them. Called before the
/// VM's vCPUs are made.
pub(in crate::linux) fn let_out(vm: &VmFd, steal: StealTime) -> Result<(), Error> {
    let reasons = MsrExitReason::Filter | MsrExitReason::Inval | MsrExitReason::Unknown;
    let refused = [APIC_BASE, msr::TSC_DEADLINE, PV_EOI, steal::MSR];
    // The last one is KVM's own otherwise.
    let count = if steal == StealTime::Monitor { refused.len() } else { refused.len() - 1 };
    msr_exits::let_out(vm, reasons, &refused[..count])
}
