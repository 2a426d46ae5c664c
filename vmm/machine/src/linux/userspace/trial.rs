//! What guests may expect of this KVM: whether it lets writes of the TSC deadline out, and how fast the TSC ticks.
//!
//! Some versions handle this write before they ask the filter, and drop it where no APIC is in the kernel: on Intel's
//! side with the preemption timer, and some without that condition. A guest whose timer is lost stands still. So a tiny
//! guest tries it. Where the write stays inside, guests get no TSC deadline mode and use
//! the timer's counter, whose writes always come out.

use super::msrs;
use crate::linux::apic::local::msr;
use crate::linux::cpuid::{Features, StealTime};
use crate::linux::entry;
use crate::linux::kernel::Protocol;
use crate::vm::{self, HostFeatures, MakeError, refused, vm_with};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};
use vm_memory::{Bytes, GuestAddress};

/// Memory: page tables lie below the code.
const MEMORY: usize = 0x2_0000;
const CODE: u64 = 0x1_0000;
/// `mov ecx, IA32_TSC_DEADLINE; mov eax, 1; xor edx, edx; wrmsr; hlt`
const PROGRAM: [u8; 15] = {
    let [a, b, c, d] = msr::TSC_DEADLINE.to_le_bytes();
    [0xb9, a, b, c, d, 0xb8, 1, 0, 0, 0, 0x31, 0xd2, 0x0f, 0x30, 0xf4]
};
/// A signal may end a run before its first instruction.
const TRIES: u32 = 8;

/// What the tiny guest found.
#[derive(Debug, Clone, Copy)]
pub(in crate::linux) struct Trial {
    /// Writes of the TSC deadline make an exit.
    pub(in crate::linux) deadline_comes_out: bool,
    /// The rate of the TSC (units: kHz).
    pub(in crate::linux) tsc_khz: u32,
}

/// Makes a vCPU with these features and tries it.
pub(in crate::linux) fn of(kvm: &Kvm, features: &Features) -> Result<Trial, MakeError> {
    let memory = vm::map(&[(GuestAddress(0), MEMORY)])?;
    let protocol = Protocol::Linux64 { entry: CODE, header: None };
    let written = entry::write(&memory, &protocol).and_then(|()| memory.write_slice(&PROGRAM, GuestAddress(CODE)));
    written.expect("the structures lie within memory");
    let vm = vm_with(kvm, &memory, HostFeatures::default())?;
    msrs::let_out(&vm, StealTime::Untold).map_err(refused("exits for model-specific registers"))?;
    let mut fd = vm.create_vcpu(0).map_err(refused("a vCPU"))?;
    let features = features.of_vcpu(0).map_err(refused("so many CPU features"))?;
    fd.set_cpuid2(&features).map_err(refused("the vCPU's features"))?;
    let made = fd.get_sregs().map_err(refused("the vCPU's special registers"))?;
    let sregs = entry::special_registers(&protocol, made);
    fd.set_sregs(&sregs).map_err(refused("to start the vCPU in 64-bit mode"))?;
    fd.set_regs(&entry::registers(&protocol)).map_err(refused("the vCPU's registers"))?;
    let tsc_khz = fd.get_tsc_khz().map_err(refused("the TSC frequency"))?;
    Ok(Trial { deadline_comes_out: writes_deadline(&mut fd), tsc_khz })
}

/// Runs the program. Whether its write makes an exit.
fn writes_deadline(fd: &mut VcpuFd) -> bool {
    for _ in 0..TRIES {
        match fd.run() {
            Ok(VcpuExit::X86Wrmsr(exit)) => return exit.index == msr::TSC_DEADLINE,
            Ok(VcpuExit::Intr) => {}
            Err(error) if error.errno() == libc::EINTR => {}
            _ => break,
        }
    }
    false
}
