//! Reads a guest's code where its page tables have it.

use kvm_ioctls::VcpuFd;
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const PAGE: u64 = 4096;

/// Reads code from this virtual address on, up to the first page that the vCPU's tables do not have or that is no
/// memory. Returns how much was read.
pub(super) fn read(fd: &VcpuFd, memory: &GuestMemoryMmap, from: u64, code: &mut [u8]) -> Option<usize> {
    let mut read = 0;
    while read < code.len() {
        let address = from.checked_add(read as u64)?;
        let in_page = usize::try_from(PAGE - address % PAGE).ok()?;
        let part = in_page.min(code.len() - read);
        let place = fd.translate_gva(address).ok().filter(|place| place.valid != 0);
        let found = place.and_then(|place| {
            memory.read_slice(&mut code[read..read + part], GuestAddress(place.physical_address)).ok()
        });
        if found.is_none() {
            break;
        }
        read += part;
    }
    Some(read)
}
