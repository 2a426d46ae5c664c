//! How a device's interrupt reaches its VM: a guest without an interrupt controller gets it as an event for vCPU 0,
//! which owns the network.

use std::sync::{Arc, OnceLock, Weak};

use crate::devices::virtio::Notify;
use crate::vm::VmStatus;

/// The way to a VM that is yet to be made: its device needs it before there is a VM. Holds no reference, so that VM and
/// device do not keep each other alive.
#[derive(Default)]
pub struct VmEvents(OnceLock<Weak<VmStatus>>);

impl VmEvents {
    /// Leads to `vm` from now on. An earlier event is lost, but so it would be on a guest that has not started; only the
    /// first call counts.
    pub fn lead_to(&self, vm: &Arc<VmStatus>) {
        let _ = self.0.set(Arc::downgrade(vm));
    }
}

impl Notify for VmEvents {
    fn notify(&self) {
        if let Some(vm) = self.0.get().and_then(Weak::upgrade) {
            vm.wake(0);
        }
    }
}
