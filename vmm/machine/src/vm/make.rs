//! The steps of making a VM that both kinds share: checking the number of vCPUs, mapping memory, registering it with
//! KVM.

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VmFd};
use stile_sched::domain::DomainError;
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, MemoryRegionAddress};

/// Why a VM of either kind could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// The number of vCPUs is not between 1 and what KVM allows.
    #[error("{asked} vCPUs: this host's KVM allows 1 to {most} in one VM")]
    Vcpus {
        /// Number asked for.
        asked: u32,
        /// Most that KVM allows.
        most: usize,
    },
    /// The host gives no memory.
    #[error("cannot map {bytes} bytes of guest memory")]
    Memory {
        /// Size asked for (units: bytes).
        bytes: u64,
        /// Cause.
        #[source]
        source: vm_memory::mmap::FromRangesError,
    },
    /// KVM refused a request.
    #[error("KVM refused: {what}")]
    Kvm {
        /// What KVM was asked for.
        what: &'static str,
        /// Cause.
        #[source]
        source: kvm_ioctls::Error,
    },
    /// The domain has no place.
    #[error(transparent)]
    Domain(#[from] DomainError),
}

/// Makes an error of KVM's refusal and what KVM was asked for.
pub(crate) fn refused(what: &'static str) -> impl FnOnce(kvm_ioctls::Error) -> MakeError {
    move |source| MakeError::Kvm { what, source }
}

/// Checks that one VM may have so many vCPUs.
pub(crate) fn check_vcpus(kvm: &Kvm, asked: u32) -> Result<(), MakeError> {
    let most = kvm.get_max_vcpus();
    if asked == 0 || asked as usize > most { Err(MakeError::Vcpus { asked, most }) } else { Ok(()) }
}

/// Maps guest memory in these ranges.
pub(crate) fn map(ranges: &[(GuestAddress, usize)]) -> Result<GuestMemoryMmap, MakeError> {
    let bytes = ranges.iter().map(|(_, bytes)| *bytes as u64).sum();
    GuestMemoryMmap::from_ranges(ranges).map_err(|source| MakeError::Memory { bytes, source })
}

/// KVM's VM with this memory. Each thread that runs one of its vCPUs has to keep the memory alive.
pub(crate) fn vm_with(kvm: &Kvm, memory: &GuestMemoryMmap) -> Result<VmFd, MakeError> {
    let fd = kvm.create_vm().map_err(refused("a new VM"))?;
    register(&fd, memory).map_err(refused("a memory region"))?;
    Ok(fd)
}

#[allow(unsafe_code, reason = "KVM takes an address on trust")]
fn register(fd: &VmFd, memory: &GuestMemoryMmap) -> Result<(), kvm_ioctls::Error> {
    for (slot, region) in memory.iter().enumerate() {
        let host = region.get_host_address(MemoryRegionAddress(0)).expect("a mapped region has a host address");
        let region = kvm_userspace_memory_region {
            slot: slot as u32,
            flags: 0,
            guest_phys_addr: region.start_addr().0,
            memory_size: region.len(),
            userspace_addr: host as u64,
        };
        // SAFETY: the mapping lives in what all vCPUs share, which every vCPU of this VM keeps alive.
        unsafe { fd.set_user_memory_region(region) }?;
    }
    Ok(())
}
