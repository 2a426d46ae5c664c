//! How a device's interrupt reaches a guest without an interrupt controller: as an event for vCPU 0, which owns the
//! network.

use std::sync::{Arc, OnceLock, Weak};

use crate::devices::virtio::Notify;
use crate::vm::VmStatus;

/// The notification of a VM that is yet to be made: the VM's device needs it before there is a VM. It holds no
/// reference, so that VM and device do not keep each other alive.
#[derive(Default)]
pub struct VmEvents(OnceLock<Weak<VmStatus>>);

impl VmEvents {
    /// Notifies `vm` from now on. Only the first call counts. An earlier event is lost, as it would be on a guest that
    /// has not started.
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
