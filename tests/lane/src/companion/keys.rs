//! Holds what would otherwise make the kernel patch its code again and again.
//!
//! The kernel patches the code that tests some of its switches (static keys). The first user of a kind turns a key on,
//! and the end of the last one turns it off. Such users are: a counter of context switches, as stile makes for every
//! vCPU that may halt inside KVM_RUN; a VM; a vCPU whose LAPIC is not in use, or missing. QEMU's emulated CPUs run in
//! parallel, and one of them may go on executing code that another has patched, and meet the breakpoint that stands
//! there meanwhile. The kernel finds no breakpoint and lets the CPU try again, for ever. While this program holds one
//! of each, no such code is patched during tests.

use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use std::io;
use stile_sched::kick::Departure;

/// One user of each key.
pub(crate) struct Keys {
    _counter: Departure,
    _vcpus: [(VmFd, VcpuFd); 2],
}

/// Becomes a user of each.
pub(crate) fn hold() -> io::Result<Keys> {
    let counter = Departure::for_this_thread()?;
    let kvm = Kvm::new()?;
    let with_lapic = kvm.create_vm()?;
    with_lapic.create_irq_chip()?;
    let idle = with_lapic.create_vcpu(0)?;
    let without = kvm.create_vm()?;
    let other = without.create_vcpu(0)?;
    Ok(Keys { _counter: counter, _vcpus: [(with_lapic, idle), (without, other)] })
}
