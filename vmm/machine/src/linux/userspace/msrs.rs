//! Which accesses to model-specific registers come out of KVM.
//!
//! Without an APIC in the kernel KVM refuses the x2APIC's registers, and refused accesses come out. Three registers it
//! does not refuse, so a filter does: KVM ignores writes of the TSC deadline, keeps the APIC's base address itself, and
//! would carry out the paravirtual ends of interrupts for an APIC that is not there.

use super::pv_eoi::PV_EOI;
use crate::linux::apic::local::msr;
use crate::linux::layout::LOCAL_APIC;
use kvm_bindings::{KVM_CAP_X86_USER_SPACE_MSR, kvm_enable_cap};
use kvm_ioctls::{Error, MsrExitReason, MsrFilterDefaultAction, MsrFilterRange, MsrFilterRangeFlags, VmFd};

/// The APIC's base address and mode.
pub(super) const APIC_BASE: u32 = 0x1b;
/// Its bits: the processor boots the machine; x2APIC mode; on.
const BOOTS: u64 = 1 << 8;
const X2APIC: u64 = 1 << 10;
const ON: u64 = 1 << 11;
/// Registers that the filter refuses.
const FILTERED: [u32; 3] = [APIC_BASE, msr::TSC_DEADLINE, PV_EOI];

/// The value of [`APIC_BASE`] on a vCPU.
pub(super) fn apic_base(vcpu: u32) -> u64 {
    u64::from(LOCAL_APIC) | ON | X2APIC | if vcpu == 0 { BOOTS } else { 0 }
}

/// Lets these accesses out. Called before the VM's vCPUs are made.
pub(in crate::linux) fn let_out(vm: &VmFd) -> Result<(), Error> {
    let reasons = MsrExitReason::Filter | MsrExitReason::Inval | MsrExitReason::Unknown;
    let args = [reasons.bits().into(), 0, 0, 0];
    vm.enable_cap(&kvm_enable_cap { cap: KVM_CAP_X86_USER_SPACE_MSR, args, ..Default::default() })?;
    // A cleared bit refuses its register. KVM reads whole words of a bitmap.
    let refused = FILTERED.map(|base| MsrFilterRange {
        flags: MsrFilterRangeFlags::READ | MsrFilterRangeFlags::WRITE,
        base,
        msr_count: 1,
        bitmap: &[0; 8],
    });
    vm.set_msr_filter(MsrFilterDefaultAction::ALLOW, &refused)
}
