//! Model-specific registers that firmware would set.

use kvm_bindings::{Msrs, kvm_msr_entry};
use kvm_ioctls::{Error, VcpuFd};

/// IA32_MISC_ENABLE: fast string operations.
const MISC_ENABLE: (u32, u64) = (0x1a0, 1);
/// IA32_MTRR_DEF_TYPE: memory types are on; memory without a type of its own is write-back.
const MTRR_DEFAULT: (u32, u64) = (0x2ff, 1 << 11 | 6);

/// Sets them on a vCPU.
pub(super) fn set(vcpu: &VcpuFd) -> Result<(), Error> {
    let entries = [MISC_ENABLE, MTRR_DEFAULT].map(|(index, data)| kvm_msr_entry { index, data, ..Default::default() });
    let msrs = Msrs::from_entries(&entries).expect("two are few enough");
    // Registers that this KVM does not know are left out. The kernel works without them.
    vcpu.set_msrs(&msrs).map(drop)
}
