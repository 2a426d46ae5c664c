//! Runs in the outer system beside the tests, and holds what would otherwise make the kernel patch its code again and
//! again.
//!
//! The kernel patches the code that tests some of its switches (static keys). The first user of a kind turns a key on,
//! and the end of the last one turns it off. Such users are: a counter of context switches, as stile makes for every
//! vCPU that may halt inside KVM_RUN; a VM; a vCPU whose LAPIC is not in use, or missing. QEMU's emulated CPUs run in
//! parallel, and one of them may go on executing code that another has patched, and meet the breakpoint that stands
//! there meanwhile. The kernel finds no breakpoint and lets the CPU try again, for ever. While this program holds one
//! of each, no such code is patched during tests.

use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use std::io;
use std::process::ExitCode;
use stile_sched::kick::{self, Departure};

/// Reports that all of them are held.
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
