//! The vCPU that the calling thread carries, so that a domain knows by which of its vCPUs another one is woken.

use crate::ids::VcpuId;
use std::cell::Cell;

thread_local! {
    /// The domain, by its address, and the vCPU.
    static CARRIED: Cell<Option<(usize, VcpuId)>> = const { Cell::new(None) };
}

/// The calling thread carries this vCPU of this domain from now on.
pub(super) fn set_carried<D>(domain: &D, vcpu: VcpuId) {
    CARRIED.set(Some((std::ptr::from_ref(domain).addr(), vcpu)));
}

/// The vCPU of this domain that the calling thread carries, if it carries one.
pub(super) fn carried<D>(domain: &D) -> Option<VcpuId> {
    let (home, vcpu) = CARRIED.get()?;
    (home == std::ptr::from_ref(domain).addr()).then_some(vcpu)
}
