//! Makes a VM that has a port on a switch.

use std::sync::Arc;

use kvm_ioctls::Kvm;
use stile_sched::Domain;
use vm_memory::GuestMemoryMmap;

use super::{CreateError, Spec, Vm};
use crate::devices::net::{NetDevice, PREFIX_LENGTH, PortNumber, Switch, VmEvents};
use crate::devices::{DeviceError, MmioDevice};

/// Makes the VM that `spec` describes, with a network device on this port of `switch`. Tells the guest its address on
/// the command line: `net.ip=` comes before the words of `spec`.
pub fn create_on_switch(
    kvm: &Kvm,
    spec: &Spec<'_>,
    domain: Arc<dyn Domain>,
    switch: &Arc<Switch>,
    port: PortNumber,
) -> Result<Vm, CreateError> {
    let events = Arc::new(VmEvents::default());
    let attach = |memory: &GuestMemoryMmap| -> Result<Arc<dyn MmioDevice>, DeviceError> {
        Ok(Arc::new(NetDevice::attach(switch, port, memory.clone(), Arc::clone(&events) as _)?))
    };
    let cmdline = format!("net.ip={}/{} {}", port.ip(), PREFIX_LENGTH, spec.cmdline);
    let spec = Spec { cmdline: &cmdline, device: Some(&attach), console: spec.console.clone(), ..*spec };
    let vm = Vm::create(kvm, &spec, domain)?;
    events.lead_to(vm.status());
    Ok(vm)
}
