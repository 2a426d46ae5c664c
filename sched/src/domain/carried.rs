//! The vCPU that the calling thread carries, so that a domain knows by which of its vCPUs another one is woken.

use crate::ids::{Slot, VcpuId};
use crate::sync::thread_local;
use std::cell::Cell;

thread_local! {
    /// The domain, by its address, the vCPU and its slot.
    static CARRIED: Cell<Option<(usize, VcpuId, Slot)>> = const { Cell::new(None) };
}

/// The calling thread carries this vCPU of this domain on this slot from now on.
pub(super) fn set_carried<D>(domain: &D, vcpu: VcpuId, slot: Slot) {
    CARRIED.with(|carried| carried.set(Some((std::ptr::from_ref(domain).addr(), vcpu, slot))));
}

/// The vCPU of this domain that the calling thread carries, if it carries one, and its slot.
pub(super) fn carried<D>(domain: &D) -> Option<(VcpuId, Slot)> {
    let (home, vcpu, slot) = CARRIED.with(Cell::get)?;
    (home == std::ptr::from_ref(domain).addr()).then_some((vcpu, slot))
}
