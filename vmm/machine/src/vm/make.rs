//! What making a VM takes, whatever is to run in it: a number of vCPUs that KVM permits, and memory that KVM knows.

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VmFd};
use stile_sched::domain::DomainError;
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, MemoryRegionAddress};

/// Why a VM of either kind could not be made.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// Not between 1 and what KVM allows.
    #[error("{asked} vCPUs: this host's KVM allows 1 to {most} in one VM")]
    Vcpus {
        /// Asked for.
        asked: u32,
        /// Allowed.
        most: usize,
    },
    /// No memory from the host.
    #[error("cannot map {bytes} bytes of guest memory")]
    Memory {
        /// Size.
        bytes: u64,
        /// Cause.
        #[source]
        source: vm_memory::mmap::FromRangesError,
    },
    /// KVM refused.
    #[error("KVM refused: {what}")]
    Kvm {
        /// What it was asked.
        what: &'static str,
        /// Cause.
        #[source]
        source: kvm_ioctls::Error,
    },
    /// No place in the domain.
    #[error(transparent)]
    Domain(#[from] DomainError),
}

/// What KVM was asked when it refused.
pub(crate) fn refused(what: &'static str) -> impl FnOnce(kvm_ioctls::Error) -> MakeError {
    move |source| MakeError::Kvm { what, source }
}

/// Whether one VM may have so many vCPUs.
pub(crate) fn check_vcpus(kvm: &Kvm, asked: u32) -> Result<(), MakeError> {
    let most = kvm.get_max_vcpus();
    if asked == 0 || asked as usize > most { Err(MakeError::Vcpus { asked, most }) } else { Ok(()) }
}

/// Memory in these ranges.
pub(crate) fn map(ranges: &[(GuestAddress, usize)]) -> Result<GuestMemoryMmap, MakeError> {
    let bytes = ranges.iter().map(|(_, bytes)| *bytes as u64).sum();
    GuestMemoryMmap::from_ranges(ranges).map_err(|source| MakeError::Memory { bytes, source })
}

/// KVM's VM with this memory, which everybody who runs one of its vCPUs has to keep alive.
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
