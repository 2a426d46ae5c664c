//! The steps of making a VM that both kinds share: checking the number of vCPUs, mapping memory, registering it with
//! KVM.

use super::cpuid::{self, HostFeatures};
use super::host_exits;
use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::{Kvm, VmFd};
use std::io;
use stile_sched::domain::DomainError;
use vm_memory::MemoryRegionAddress;
use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion, GuestRegionMmap};

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
    /// The host does not leave guest memory out of core dumps.
    #[error("guest memory cannot be left out of core dumps")]
    Dumped(#[source] io::Error),
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

/// Maps guest memory in these ranges. It is not part of core dumps: what a guest holds is nobody else's business.
pub(crate) fn map(ranges: &[(GuestAddress, usize)]) -> Result<GuestMemoryMmap, MakeError> {
    let bytes = ranges.iter().map(|(_, bytes)| *bytes as u64).sum();
    let memory = GuestMemoryMmap::from_ranges(ranges).map_err(|source| MakeError::Memory { bytes, source })?;
    memory.iter().try_for_each(leave_out_of_dumps).map_err(MakeError::Dumped)?;
    Ok(memory)
}

#[allow(unsafe_code, reason = "advice on a mapping")]
fn leave_out_of_dumps(region: &GuestRegionMmap) -> io::Result<()> {
    let host = region.get_host_address(MemoryRegionAddress(0)).map_err(io::Error::other)?;
    // SAFETY: the range is that of one mapping, which is not changed by this.
    let refused = unsafe { libc::madvise(host.cast(), region.len() as usize, libc::MADV_DONTDUMP) };
    if refused == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// KVM's VM with this memory and these features of the host. Each thread that runs one of its vCPUs has to keep the
/// memory alive.
pub(crate) fn vm_with(kvm: &Kvm, memory: &GuestMemoryMmap, shown: HostFeatures) -> Result<VmFd, MakeError> {
    let fd = kvm.create_vm().map_err(refused("a new VM"))?;
    if !shown.counters {
        cpuid::hide_counters(&fd);
    }
    host_exits::ask_for(&fd);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_memory_is_not_part_of_core_dumps() {
        let memory = map(&[(GuestAddress(0), 1 << 20), (GuestAddress(1 << 32), 1 << 20)]).unwrap();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        for region in memory.iter() {
            let host = region.get_host_address(MemoryRegionAddress(0)).unwrap() as usize;
            let range = |line: &str| {
                let (start, end) = line.split_once(' ')?.0.split_once('-')?;
                Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
            };
            let mut lines = maps.lines().skip_while(|line| !range(line).is_some_and(|range| range.contains(&host)));
            let flags = lines.find(|line| line.starts_with("VmFlags:")).unwrap();
            assert!(flags.split_whitespace().any(|flag| flag == "dd"), "{flags}");
        }
    }
}
