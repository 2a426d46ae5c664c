//! Runs in the outer system beside the tests, and holds what else makes the kernel patch its code again and again.
//!
//! The kernel has switches of which it patches the code that asks (static keys). The first of a kind turns one on, the
//! last one's end turns it off: a counter of context switches, as stile makes for every vCPU that may halt inside
//! KVM_RUN; a VM; a vCPU whose LAPIC is not in use, or not there. QEMU's emulated CPUs run in parallel, and one may go
//! on executing what another has patched: the breakpoint that stands there meanwhile. The kernel finds no breakpoint,
//! lets it try again, and the CPU never gets on. With one of each held, nothing of this is patched while tests run.

use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use std::io;
use std::process::ExitCode;
use stile_sched::kick::{self, Departure};

/// Says that all of them are there.
const HELD: &str = "/run/hold-keys";

fn main() -> ExitCode {
    kick::block();
    match hold() {
        Ok(_held) => loop {
            std::thread::park();
        },
        Err(error) => {
            eprintln!("hold-keys: {error}");
            ExitCode::FAILURE
        }
    }
}

fn hold() -> io::Result<(Departure, [(VmFd, VcpuFd); 2])> {
    let counter = Departure::for_this_thread()?;
    let kvm = Kvm::new()?;
    let with_lapic = kvm.create_vm()?;
    with_lapic.create_irq_chip()?;
    let idle = with_lapic.create_vcpu(0)?;
    let without = kvm.create_vm()?;
    let other = without.create_vcpu(0)?;
    std::fs::write(HELD, "")?;
    Ok((counter, [(with_lapic, idle), (without, other)]))
}
