//! The features of this host's KVM that guests of either kind may see.
//!
//! Hidden are virtualisation inside of a guest, which is the part of KVM with the most faults, and performance
//! counters, by which a guest measures what others do on its core. Bits and leaves: Intel's Software Developer's
//! Manual, volume 2, CPUID; AMD's Architecture Programmer's Manual, volume 3, appendix E.

use kvm_bindings::{CpuId, KVM_CAP_PMU_CAPABILITY, KVM_MAX_CPUID_ENTRIES, KVM_PMU_CAP_DISABLE};
use kvm_bindings::{kvm_cpuid_entry2, kvm_enable_cap};
use kvm_ioctls::{Error, Kvm, VmFd};

/// Leaf 1, ECX: virtualisation (VMX); 64-bit debug store, debug store by privilege, and capabilities of the counters.
const VMX: u32 = 1 << 5;
const COUNTERS_ECX: u32 = 1 << 2 | 1 << 4 | 1 << 15;
/// Leaf 1, EDX: debug store.
const COUNTERS_EDX: u32 = 1 << 21;
/// Leaf 7, EBX: processor trace. EDX: records of branches.
const TRACE: u32 = 1 << 25;
const BRANCHES: u32 = 1 << 19;
/// Leaf 8000_0001, ECX: virtualisation (SVM); sampling of instructions, and counters of core, north bridge and cache.
const SVM: u32 = 1 << 2;
const AMD_COUNTERS: u32 = 1 << 10 | 1 << 23 | 1 << 24 | 1 << 28;
/// Leaves that describe what is hidden: counters, processor trace, records of branches, SVM, sampling, counters.
const HIDDEN: [u32; 6] = [0xa, 0x14, 0x1c, 0x8000_000a, 0x8000_001b, 0x8000_0022];

/// The CPUID of this host's KVM, without what is hidden.
pub(crate) fn supported(kvm: &Kvm) -> Result<CpuId, Error> {
    let mut cpuid = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)?;
    cpuid.as_mut_slice().iter_mut().for_each(hide);
    Ok(cpuid)
}

/// Takes the counters themselves from a VM without vCPUs. AMD's first four are there whatever CPUID says.
pub(crate) fn hide_counters(vm: &VmFd) {
    let mut cap = kvm_enable_cap { cap: KVM_CAP_PMU_CAPABILITY, ..Default::default() };
    cap.args[0] = u64::from(KVM_PMU_CAP_DISABLE);
    // Linux before 5.18 cannot do this.
    let _ = vm.enable_cap(&cap);
}

fn hide(entry: &mut kvm_cpuid_entry2) {
    match entry.function {
        1 => {
            entry.ecx &= !(VMX | COUNTERS_ECX);
            entry.edx &= !COUNTERS_EDX;
        }
        7 if entry.index == 0 => {
            entry.ebx &= !TRACE;
            entry.edx &= !BRANCHES;
        }
        0x8000_0001 => entry.ecx &= !(SVM | AMD_COUNTERS),
        leaf if HIDDEN.contains(&leaf) => (entry.eax, entry.ebx, entry.ecx, entry.edx) = (0, 0, 0, 0),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtualisation_and_counters_are_hidden_and_nothing_else() {
        let shown = |function: u32, index: u32| {
            let all = u32::MAX;
            let mut entry =
                kvm_cpuid_entry2 { function, index, eax: all, ebx: all, ecx: all, edx: all, ..Default::default() };
            hide(&mut entry);
            [entry.eax, entry.ebx, entry.ecx, entry.edx].map(|register| !register)
        };
        assert_eq!(shown(1, 0), [0, 0, 0x8034, 0x20_0000]);
        assert_eq!(shown(7, 0), [0, 0x200_0000, 0, 0x8_0000]);
        assert_eq!(shown(0x8000_0001, 0), [0, 0, 0x1180_0404, 0]);
        for leaf in HIDDEN {
            assert_eq!(shown(leaf, 1), [u32::MAX; 4], "{leaf:#x}");
        }
        for (leaf, index) in [(0, 0), (2, 0), (4, 3), (7, 1), (0xb, 0), (0xd, 1), (0x4000_0001, 0), (0x8000_0008, 0)] {
            assert_eq!(shown(leaf, index), [0; 4], "{leaf:#x}");
        }
    }
}
