//! KVM_RUN and the exits that vCPUs of both kinds handle alike: accesses to ports and device registers, kicks and
//! failures. What concerns interrupt controllers and registers of the CPU is left to the caller.

use super::state::LinuxState;
use crate::devices::PendingWrite;
use crate::vm::host_exits::HostExit;
use crate::vm::{FaultKind, Outcome};
use kvm_ioctls::{VcpuExit, VcpuFd};

/// What came of an exit.
pub(super) enum Event {
    /// It is handled.
    Handled,
    /// It is handled, except for what KVM does at the next entry.
    Completes,
    /// Something kicked the thread.
    Kicked,
    /// The guest ended its VM.
    Ends(Outcome),
    /// The vCPU cannot go on.
    Broken(FaultKind),
}

/// Runs the guest until its next exit. An exit of another kind comes back as an error. A write to a device that has to
/// be made again is left in `pending`.
pub(super) fn run<'a>(
    fd: &'a mut VcpuFd,
    vm: &LinuxState,
    pending: &mut Option<PendingWrite>,
) -> Result<Event, VcpuExit<'a>> {
    let event = match fd.run() {
        Ok(VcpuExit::IoOut(port, data)) => vm.port_write(port, data).map_or(Event::Handled, Event::Ends),
        Ok(VcpuExit::IoIn(port, data)) => {
            vm.port_read(port, data);
            Event::Completes
        }
        Ok(VcpuExit::MmioRead(address, data)) => {
            vm.mmio_read(address, data);
            Event::Completes
        }
        Ok(VcpuExit::MmioWrite(address, data)) => {
            *pending = vm.mmio_write(address, data);
            Event::Handled
        }
        Ok(VcpuExit::Intr) => Event::Kicked,
        Ok(VcpuExit::Shutdown) => Event::Broken(FaultKind::TripleFault),
        Ok(other) => return Err(other),
        // EAGAIN: the kernel has just started this vCPU, which waited for its start.
        Err(e) if e.errno() == libc::EINTR || e.errno() == libc::EAGAIN => Event::Kicked,
        Err(e) => Event::Broken(FaultKind::Kvm(e.to_string())),
    };
    Ok(event)
}

/// What comes of an exit that is not for the guest's sake, or that nothing handles.
pub(super) fn other(exit: &VcpuExit<'_>) -> Event {
    match exit {
        VcpuExit::Unsupported(reason) => match HostExit::of(*reason) {
            // The vCPU pauses before it is entered again.
            Some(HostExit::BusLock) => Event::Handled,
            Some(HostExit::NoWindow) => Event::Broken(FaultKind::NoWindow),
            None => unknown(exit),
        },
        _ => unknown(exit),
    }
}

fn unknown(exit: &VcpuExit<'_>) -> Event {
    Event::Broken(FaultKind::Kvm(format!("exit {exit:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_lock_is_no_fault_and_a_guest_that_keeps_the_cpu_ends_its_vm_with_a_reason() {
        assert!(matches!(other(&VcpuExit::Unsupported(33)), Event::Handled));
        let Event::Broken(kind) = other(&VcpuExit::Unsupported(37)) else { panic!("the VM goes on") };
        assert!(kind.to_string().contains("keeps the CPU from taking interrupts"), "{kind}");
        for exit in [VcpuExit::Unsupported(34), VcpuExit::Hlt] {
            assert!(matches!(other(&exit), Event::Broken(FaultKind::Kvm(_))), "{exit:?}");
        }
    }
}
