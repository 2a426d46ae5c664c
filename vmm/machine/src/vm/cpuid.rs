//! The features of this host's KVM that guests of either kind may see.
//!
//! Hidden, unless a VM is to have them, are virtualisation inside of a guest, which is the part of KVM with the most
//! faults, and performance counters, by which a guest measures what others do on its core. Bits and leaves: Intel's
//! Software Developer's Manual, volume 2, CPUID; AMD's Architecture Programmer's Manual, volume 3, appendix E.

use kvm_bindings::{CpuId, KVM_CAP_PMU_CAPABILITY, KVM_MAX_CPUID_ENTRIES, KVM_PMU_CAP_DISABLE};
use kvm_bindings::{kvm_cpuid_entry2, kvm_enable_cap};
use kvm_ioctls::{Error, Kvm, VmFd};
use std::sync::OnceLock;

/// Leaf 1, ECX: virtualisation (VMX); 64-bit debug store, debug store by privilege, and capabilities of the counters.
const VMX: u32 = 1 << 5;
const COUNTERS_ECX: u32 = 1 << 2 | 1 << 4 | 1 << 15;
/// Leaf 1, EDX: debug store.
const COUNTERS_EDX: u32 = 1 << 21;
/// Leaf 7, EBX: processor trace. EDX: records of branches.
const TRACE: u32 = 1 << 25;
const BRANCHES: u32 = 1 << 19;
/// Subleaf 1 of leaf 7, EAX: leaf 23 describes counters.
const MORE_COUNTERS: u32 = 1 << 8;
/// Leaf 8000_0001, ECX: virtualisation (SVM); sampling of instructions, and counters of core, north bridge and cache.
const SVM: u32 = 1 << 2;
const AMD_COUNTERS: u32 = 1 << 10 | 1 << 23 | 1 << 24 | 1 << 28;
/// The leaf that describes SVM.
const SVM_LEAF: u32 = 0x8000_000a;
/// Leaves that describe counters, processor trace, records of branches, counters, sampling, counters.
const COUNTER_LEAVES: [u32; 6] = [0xa, 0x14, 0x1c, 0x23, 0x8000_001b, 0x8000_0022];

/// Features of the host that a VM has only if it is to have them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostFeatures {
    /// Virtualisation: VMX or SVM, by which the guest runs guests of its own.
    pub nested: bool,
    /// Performance counters, and records of branches and instructions.
    pub counters: bool,
}

/// The CPUID of this host's KVM, without what is hidden.
///
/// KVM is asked once: it executes CPUID for each leaf, and where the host is a VM itself, each of them is an exit to
/// its hypervisor.
pub(crate) fn supported(kvm: &Kvm, shown: HostFeatures) -> Result<CpuId, Error> {
    static OF_HOST: OnceLock<CpuId> = OnceLock::new();
    let mut cpuid = match OF_HOST.get() {
        Some(asked) => asked.clone(),
        None => {
            let asked = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)?;
            OF_HOST.get_or_init(|| asked).clone()
        }
    };
    cpuid.as_mut_slice().iter_mut().for_each(|entry| hide(entry, shown));
    Ok(cpuid)
}

/// Whether guests with this CPUID have virtualisation.
pub(crate) fn has_virtualisation(cpuid: &[kvm_cpuid_entry2]) -> bool {
    cpuid.iter().any(|entry| match entry.function {
        1 => entry.ecx & VMX != 0,
        0x8000_0001 => entry.ecx & SVM != 0,
        _ => false,
    })
}

/// Takes the counters themselves from a VM without vCPUs. AMD's first four are there whatever CPUID says.
pub(crate) fn hide_counters(vm: &VmFd) {
    let mut cap = kvm_enable_cap { cap: KVM_CAP_PMU_CAPABILITY, ..Default::default() };
    cap.args[0] = u64::from(KVM_PMU_CAP_DISABLE);
    // Linux before 5.18 cannot do this.
    let _ = vm.enable_cap(&cap);
}

fn hide(entry: &mut kvm_cpuid_entry2, shown: HostFeatures) {
    if !shown.nested {
        hide_virtualisation(entry);
    }
    if !shown.counters {
        hide_counters_of(entry);
    }
}

fn hide_virtualisation(entry: &mut kvm_cpuid_entry2) {
    match entry.function {
        1 => entry.ecx &= !VMX,
        0x8000_0001 => entry.ecx &= !SVM,
        SVM_LEAF => clear(entry),
        _ => {}
    }
}

fn hide_counters_of(entry: &mut kvm_cpuid_entry2) {
    match entry.function {
        1 => {
            entry.ecx &= !COUNTERS_ECX;
            entry.edx &= !COUNTERS_EDX;
        }
        7 if entry.index == 0 => {
            entry.ebx &= !TRACE;
            entry.edx &= !BRANCHES;
        }
        7 if entry.index == 1 => entry.eax &= !MORE_COUNTERS,
        0x8000_0001 => entry.ecx &= !AMD_COUNTERS,
        leaf if COUNTER_LEAVES.contains(&leaf) => clear(entry),
        _ => {}
    }
}

fn clear(entry: &mut kvm_cpuid_entry2) {
    (entry.eax, entry.ebx, entry.ecx, entry.edx) = (0, 0, 0, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bits of a leaf that a VM with these features does not see.
    fn hidden(shown: HostFeatures, function: u32, index: u32) -> [u32; 4] {
        let all = u32::MAX;
        let mut entry =
            kvm_cpuid_entry2 { function, index, eax: all, ebx: all, ecx: all, edx: all, ..Default::default() };
        hide(&mut entry, shown);
        [entry.eax, entry.ebx, entry.ecx, entry.edx].map(|register| !register)
    }

    const OTHERS: [(u32, u32); 7] = [(0, 0), (2, 0), (4, 3), (0xb, 0), (0xd, 1), (0x4000_0001, 0), (0x8000_0008, 0)];

    #[test]
    fn virtualisation_and_counters_are_hidden_and_nothing_else() {
        let hidden = |function, index| hidden(HostFeatures::default(), function, index);
        assert_eq!(hidden(1, 0), [0, 0, 0x8034, 0x20_0000]);
        assert_eq!(hidden(7, 0), [0, 0x200_0000, 0, 0x8_0000]);
        assert_eq!(hidden(7, 1), [0x100, 0, 0, 0]);
        assert_eq!(hidden(0x8000_0001, 0), [0, 0, 0x1180_0404, 0]);
        for leaf in COUNTER_LEAVES.into_iter().chain([SVM_LEAF]) {
            assert_eq!(hidden(leaf, 1), [u32::MAX; 4], "{leaf:#x}");
        }
        for (leaf, index) in OTHERS {
            assert_eq!(hidden(leaf, index), [0; 4], "{leaf:#x}");
        }
    }

    #[test]
    fn a_vm_sees_just_what_it_is_to_have() {
        let with = |nested, counters| move |leaf, index| hidden(HostFeatures { nested, counters }, leaf, index);
        let (virtualisation, counters, all) = (with(true, false), with(false, true), with(true, true));
        assert_eq!(virtualisation(1, 0), [0, 0, 0x8014, 0x20_0000]);
        assert_eq!(virtualisation(0x8000_0001, 0), [0, 0, 0x1180_0400, 0]);
        assert_eq!((virtualisation(SVM_LEAF, 0), virtualisation(0xa, 0)), ([0; 4], [u32::MAX; 4]));
        assert_eq!(counters(1, 0), [0, 0, 0x20, 0]);
        assert_eq!(counters(0x8000_0001, 0), [0, 0, 4, 0]);
        assert_eq!((counters(SVM_LEAF, 0), counters(0xa, 0)), ([u32::MAX; 4], [0; 4]));
        for (leaf, index) in OTHERS.into_iter().chain([(1, 0), (7, 0), (7, 1), (0xa, 0), (0x8000_0001, 0)]) {
            assert_eq!(all(leaf, index), [0; 4], "{leaf:#x}");
        }
    }

    #[test]
    fn virtualisation_is_told_by_either_vendors_bit() {
        let entry = |function, ecx| kvm_cpuid_entry2 { function, ecx, ..Default::default() };
        assert!(has_virtualisation(&[entry(1, VMX)]) && has_virtualisation(&[entry(1, 0), entry(0x8000_0001, SVM)]));
        assert!(!has_virtualisation(&[entry(1, !VMX), entry(0x8000_0001, !SVM), entry(7, u32::MAX)]));
    }
}
