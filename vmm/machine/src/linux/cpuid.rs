//! CPUID of a Linux guest's vCPUs: the features of this host's KVM that guests may see, with the topology of the VM.
//!
//! A VM is one package. Each vCPU is a core without siblings. The first two levels of cache belong to the core, the
//! third to the package. Who tells the guest its steal time decides which of KVM's features go with it ([`StealTime`]).

use crate::vm::cpuid::{self, HostFeatures};
use kvm_bindings::{CpuId, KVM_CPUID_FLAG_SIGNIFCANT_INDEX, kvm_cpuid_entry2};
use kvm_ioctls::{Cap, Error, Kvm};

/// Leaf 1, ECX: the x2APIC.
const X2APIC: u32 = 1 << 21;
/// Leaf 1, ECX: the timer that counts by TSC, which KVM has but does not list; and the hypervisor bit.
const TSC_DEADLINE: u32 = 1 << 24;
const HYPERVISOR: u32 = 1 << 31;
/// Leaf 1, EDX: more than one logical processor.
const MANY: u32 = 1 << 28;
/// Leaf 8000_0001, ECX, on AMD: the processors that leaf 1 counts are cores, not siblings.
const CORES: u32 = 1 << 1;
/// Leaf of KVM's features.
const KVM_FEATURES: u32 = 0x4000_0001;
const STEAL_TIME: u32 = 1 << 5;
/// The guest asks for a flush of a preempted vCPU's TLB by a bit in the structure for its steal time. KVM, which would
/// flush it, does not read the structure if the monitor writes it.
const PV_TLB_FLUSH: u32 = 1 << 9;
/// The guest yields to a preempted vCPU by a hypercall to KVM, which knows threads and no leases.
const PV_SCHED_YIELD: u32 = 1 << 13;
/// KVM's features that need its own local APIC: asynchronous page faults (three bits), wakes of halted vCPUs, flushes
/// of vCPUs that do not run, interrupts to many vCPUs, polling before a halt, yields to a vCPU, and long ids in
/// messages. Ends of interrupts without an exit are carried out here.
const NEED_KERNEL_APIC: u32 = 1 << 4 | 1 << 10 | 1 << 14 | 1 << 7 | 1 << 9 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 15;
/// Leaves that describe the host's topology. They are made anew for the VM, or left out.
const EXTENDED_TOPOLOGY: [u32; 2] = [0xb, 0x1f];
const AMD_EXTENDED_TOPOLOGY: u32 = 0x8000_0026;
/// Types of topology levels in these leaves.
const SIBLINGS: u32 = 1;
const PACKAGE: u32 = 2;

/// What tells the guest its steal time, and which of its vCPUs are preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StealTime {
    /// KVM, by what the host's scheduler does with the vCPUs' threads.
    Kvm,
    /// The monitor, by what the policy does with the vCPUs.
    Monitor,
    /// Nothing: the feature is not offered.
    Untold,
}

impl StealTime {
    /// KVM's features in a VM, of those that it supports.
    fn of(self, features: u32) -> u32 {
        match self {
            Self::Kvm => features,
            Self::Monitor => (features | STEAL_TIME) & !(PV_TLB_FLUSH | PV_SCHED_YIELD),
            Self::Untold => features & !STEAL_TIME,
        }
    }
}

/// The CPUID that all vCPUs of one VM share.
#[derive(Debug, Clone)]
pub struct Features {
    entries: Vec<kvm_cpuid_entry2>,
}

impl Features {
    /// The CPUID of this host, for a VM with so many vCPUs.
    pub fn of_host(kvm: &Kvm, vcpus: u32, steal: StealTime, shown: HostFeatures) -> Result<Self, Error> {
        let supported = cpuid::supported(kvm, shown)?;
        Ok(Self::new(supported.as_slice(), vcpus, kvm.check_extension(Cap::TscDeadlineTimer), steal))
    }

    fn new(supported: &[kvm_cpuid_entry2], vcpus: u32, tsc_deadline: bool, steal: StealTime) -> Self {
        let made_anew = |leaf: u32| EXTENDED_TOPOLOGY.contains(&leaf) || leaf == AMD_EXTENDED_TOPOLOGY;
        let mut entries: Vec<_> = supported.iter().filter(|entry| !made_anew(entry.function)).copied().collect();
        let last = supported.iter().find(|entry| entry.function == 0).map_or(0, |entry| entry.eax);
        for leaf in EXTENDED_TOPOLOGY.into_iter().filter(|leaf| *leaf <= last) {
            entries.extend([level(leaf, 0, 0, SIBLINGS, 1), level(leaf, 1, bits(vcpus), PACKAGE, vcpus), end(leaf)]);
        }
        entries.iter_mut().for_each(|entry| for_vm(entry, vcpus, tsc_deadline));
        let kvm = entries.iter_mut().filter(|entry| entry.function == KVM_FEATURES);
        kvm.for_each(|entry| entry.eax = steal.of(entry.eax));
        Self { entries }
    }

    /// Whether the guest can run guests of its own.
    pub(super) fn has_virtualisation(&self) -> bool {
        cpuid::has_virtualisation(&self.entries)
    }

    /// The CPUID for vCPUs whose interrupt controllers are in user space. `tsc_deadline`: their timers have that mode.
    pub fn without_kernel_apic(mut self, tsc_deadline: bool) -> Self {
        for entry in &mut self.entries {
            match entry.function {
                1 => entry.ecx = entry.ecx & !TSC_DEADLINE | X2APIC | if tsc_deadline { TSC_DEADLINE } else { 0 },
                KVM_FEATURES => entry.eax &= !NEED_KERNEL_APIC,
                _ => {}
            }
        }
        self
    }

    /// The CPUID of one vCPU.
    pub fn of_vcpu(&self, index: u32) -> Result<CpuId, Error> {
        let mut entries = self.entries.clone();
        entries.iter_mut().for_each(|entry| for_vcpu(entry, index));
        // KVM's own error for too many entries, in case the leaves added to the host's exceed the limit.
        CpuId::from_entries(&entries).map_err(|_| Error::new(libc::E2BIG))
    }
}

/// Number of bits of an APIC id that number the vCPUs.
fn bits(vcpus: u32) -> u32 {
    vcpus.next_power_of_two().trailing_zeros()
}

/// A level of the extended topology with `count` processors. APIC ids shifted right by `shift` are the ids of the next
/// level.
fn level(function: u32, index: u32, shift: u32, kind: u32, count: u32) -> kvm_cpuid_entry2 {
    let flags = KVM_CPUID_FLAG_SIGNIFCANT_INDEX;
    kvm_cpuid_entry2 { function, index, flags, eax: shift, ebx: count, ecx: kind << 8 | index, ..Default::default() }
}

/// The end of the levels.
fn end(function: u32) -> kvm_cpuid_entry2 {
    level(function, 2, 0, 0, 0)
}

/// Sets the values that all vCPUs of a VM share.
fn for_vm(entry: &mut kvm_cpuid_entry2, vcpus: u32, tsc_deadline: bool) {
    let slots = vcpus.next_power_of_two();
    match entry.function {
        1 => {
            entry.ecx |= HYPERVISOR | if tsc_deadline { TSC_DEADLINE } else { 0 };
            entry.ebx = entry.ebx & 0xff00_ffff | slots.min(0xff) << 16;
            entry.edx = if vcpus > 1 { entry.edx | MANY } else { entry.edx & !MANY };
        }
        // Caches: type 0 ends the list.
        4 if entry.eax & 0x1f != 0 => {
            entry.eax = entry.eax & 0x3fff | (slots - 1).min(0x3f) << 26 | shared_by(entry.eax, slots) << 14;
        }
        0x8000_0001 => entry.ecx = if vcpus > 1 { entry.ecx | CORES } else { entry.ecx & !CORES },
        // Number of cores in the package, and of bits of an APIC id that number them.
        0x8000_0008 => entry.ecx = entry.ecx & !0xf0ff | bits(vcpus) << 12 | (vcpus - 1),
        0x8000_001d if entry.eax & 0x1f != 0 => {
            entry.eax = entry.eax & !(0xfff << 14) | shared_by(entry.eax, slots) << 14;
        }
        _ => {}
    }
}

/// Number of processors that share a cache, less one, for a cache described like this.
fn shared_by(cache: u32, slots: u32) -> u32 {
    let level = cache >> 5 & 7;
    if level < 3 { 0 } else { slots - 1 }
}

/// Sets the values that differ from vCPU to vCPU.
fn for_vcpu(entry: &mut kvm_cpuid_entry2, index: u32) {
    match entry.function {
        1 => entry.ebx = entry.ebx & 0x00ff_ffff | index << 24,
        0xb | 0x1f => entry.edx = index,
        // APIC id; core, with one thread; node 0 of 1.
        0x8000_001e => (entry.eax, entry.ebx, entry.ecx) = (index, index & 0xff, 0),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(function: u32, index: u32, [eax, ebx, ecx, edx]: [u32; 4]) -> kvm_cpuid_entry2 {
        kvm_cpuid_entry2 { function, index, eax, ebx, ecx, edx, ..Default::default() }
    }

    /// A host of four cores with two siblings each, with leaves of both vendors.
    fn host() -> Vec<kvm_cpuid_entry2> {
        vec![
            entry(0, 0, [0x1f, 0, 0, 0]),
            entry(1, 0, [0x806f8, 0x0508_0800, 0x7ffe_fbff, 0x1f8b_fbff]),
            entry(4, 0, [0x1c00_4121, 0, 0, 0]),
            entry(4, 3, [0x1c03_c163, 0, 0, 0]),
            entry(4, 4, [0, 0, 0, 0]),
            entry(0xb, 0, [1, 2, 0x100, 5]),
            entry(0xb, 1, [3, 8, 0x201, 5]),
            entry(0x1f, 0, [1, 2, 0x100, 5]),
            entry(KVM_FEATURES, 0, [0x0100_7efb, 0, 0, 0]),
            entry(0x8000_0001, 0, [0, 0, 0x75c2_37ff, 0]),
            entry(0x8000_0008, 0, [0x3030, 0, 0x4007, 0]),
            entry(0x8000_001d, 3, [0x3c163, 0, 0, 0]),
            entry(0x8000_001e, 0, [5, 0x102, 0, 0]),
            entry(0x8000_0026, 0, [1, 2, 0x100, 5]),
        ]
    }

    fn of(vcpus: u32, index: u32) -> impl Fn(u32, u32) -> Option<kvm_cpuid_entry2> {
        let entries =
            Features::new(&host(), vcpus, true, StealTime::Untold).of_vcpu(index).unwrap().as_slice().to_vec();
        move |leaf, sub| entries.iter().find(|entry| (entry.function, entry.index) == (leaf, sub)).copied()
    }

    #[test]
    fn every_vcpu_has_its_own_apic_id_wherever_one_is_told() {
        for index in [0, 1, 5] {
            let leaf = of(6, index);
            assert_eq!(leaf(1, 0).unwrap().ebx >> 24, index);
            assert_eq!((leaf(0xb, 0).unwrap().edx, leaf(0x1f, 1).unwrap().edx), (index, index));
            let amd = leaf(0x8000_001e, 0).unwrap();
            assert_eq!((amd.eax, amd.ebx, amd.ecx), (index, index, 0));
        }
    }

    #[test]
    fn the_package_has_as_many_cores_as_the_vm_and_no_siblings() {
        let leaf = of(6, 0);
        assert_eq!((leaf(1, 0).unwrap().ebx >> 16 & 0xff, leaf(1, 0).unwrap().edx & MANY), (8, MANY));
        let [siblings, package, end] = [0, 1, 2].map(|level| leaf(0xb, level).unwrap());
        assert_eq!((siblings.eax, siblings.ebx, siblings.ecx), (0, 1, 0x100));
        assert_eq!((package.eax, package.ebx, package.ecx), (3, 6, 0x201));
        assert_eq!((end.eax, end.ebx, end.ecx), (0, 0, 2));
        assert_eq!(leaf(0x8000_0008, 0).unwrap().ecx, 3 << 12 | 5);
        assert_eq!(leaf(0x8000_0001, 0).unwrap().ecx & CORES, CORES);
        assert!(leaf(0x8000_0026, 0).is_none());
    }

    #[test]
    fn small_caches_are_a_cores_and_the_last_is_the_packages() {
        let leaf = of(6, 0);
        let shared = |leaf: Option<kvm_cpuid_entry2>| leaf.unwrap().eax >> 14 & 0xfff;
        assert_eq!((shared(leaf(4, 0)), shared(leaf(4, 3)), shared(leaf(0x8000_001d, 3))), (0, 7, 7));
        assert_eq!((leaf(4, 0).unwrap().eax >> 26, leaf(4, 4).unwrap().eax), (7, 0));
    }

    #[test]
    fn a_vm_of_one_vcpu_is_a_single_processor() {
        let leaf = of(1, 0);
        assert_eq!((leaf(1, 0).unwrap().ebx >> 16 & 0xff, leaf(1, 0).unwrap().edx & MANY), (1, 0));
        assert_eq!((leaf(0xb, 1).unwrap().eax, leaf(0xb, 1).unwrap().ebx), (0, 1));
        assert_eq!((leaf(4, 3).unwrap().eax >> 14, leaf(0x8000_0008, 0).unwrap().ecx), (0, 0));
    }

    #[test]
    fn steal_time_comes_with_what_its_writer_can_do() {
        let offered = |supported: u32, steal| {
            let features = Features::new(&[entry(KVM_FEATURES, 0, [supported, 0, 0, 0])], 2, true, steal);
            features.of_vcpu(0).unwrap().as_slice()[0].eax
        };
        assert_eq!(offered(0x0100_7efb, StealTime::Kvm), 0x0100_7efb);
        assert_eq!(offered(0x0100_7efb, StealTime::Untold), 0x0100_7edb);
        assert_eq!(offered(0x0100_7efb, StealTime::Monitor), 0x0100_5cfb);
        assert_eq!(offered(0, StealTime::Monitor), STEAL_TIME);
    }

    #[test]
    fn without_an_apic_in_the_kernel_what_needs_it_is_masked() {
        for deadline in [false, true] {
            let features =
                Features::new(&host(), 2, true, StealTime::Untold).without_kernel_apic(deadline).of_vcpu(0).unwrap();
            let of = |leaf| *features.as_slice().iter().find(|entry| entry.function == leaf).unwrap();
            assert_eq!(of(1).ecx & (X2APIC | TSC_DEADLINE), X2APIC | if deadline { TSC_DEADLINE } else { 0 });
            // The clocks, the delay-free port, and the hint that the clocks are stable.
            assert_eq!(of(KVM_FEATURES).eax & 0x0100_000b, 0x0100_000b);
            assert_eq!(of(KVM_FEATURES).eax & NEED_KERNEL_APIC, 0);
        }
    }

    #[test]
    fn the_tsc_deadline_timer_is_offered_where_there_is_one() {
        let leaf = of(2, 0);
        assert_eq!(leaf(1, 0).unwrap().ecx & (HYPERVISOR | TSC_DEADLINE), HYPERVISOR | TSC_DEADLINE);
        let without = Features::new(&[entry(1, 0, [0; 4])], 1, false, StealTime::Untold).of_vcpu(0).unwrap();
        assert_eq!(without.as_slice()[0].ecx, HYPERVISOR);
    }
}
