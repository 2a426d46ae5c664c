//! Instructions of a vCPU: model-specific registers, ports, halts, and its interrupt table.

use crate::assembly::{RING0_FIXUP, ring0_vectors, stacks};
use core::arch::asm;
use core::sync::atomic::Ordering::SeqCst;

/// Number of the vCPU that runs this, by its stack.
pub(crate) fn index() -> usize {
    let stack: u64;
    // SAFETY: it only reads a register.
    unsafe { asm!("mov {}, rsp", out(reg) stack, options(nomem, nostack)) };
    ((stack - stacks()) >> 14) as usize
}

/// Reads a register; `None` if that faults.
pub(crate) fn read(register: u32) -> Option<u64> {
    let (low, high, ok): (u32, u32, u32);
    let fixup = RING0_FIXUP[index()].as_ptr();
    // SAFETY: a fault goes on behind the instruction, as the fixup says.
    unsafe {
        asm!(
            "lea rax, [rip + 2f]",
            "mov [{fixup}], rax",
            "rdmsr",
            "mov {ok:e}, 1",
            "2:",
            fixup = in(reg) fixup, ok = inout(reg) 0u32 => ok,
            in("ecx") register, out("eax") low, out("edx") high,
        );
    }
    RING0_FIXUP[index()].store(0, SeqCst);
    (ok == 1).then_some(u64::from(high) << 32 | u64::from(low))
}

/// Writes a register; false if that faults.
pub(crate) fn write(register: u32, value: u64) -> bool {
    let ok: u32;
    let fixup = RING0_FIXUP[index()].as_ptr();
    // SAFETY: as above.
    unsafe {
        asm!(
            "lea {ok}, [rip + 2f]",
            "mov [{fixup}], {ok}",
            "xor {ok:e}, {ok:e}",
            "wrmsr",
            "mov {ok:e}, 1",
            "2:",
            fixup = in(reg) fixup, ok = out(reg) ok,
            in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32,
        );
    }
    RING0_FIXUP[index()].store(0, SeqCst);
    ok == 1
}

/// Writes a byte to a port.
pub(crate) fn out(port: u16, value: u8) {
    // SAFETY: ports belong to devices, not to memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack)) };
}

/// Reads a byte from a port.
pub(crate) fn input(port: u16) -> u8 {
    let value: u8;
    // SAFETY: as above.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack)) };
    value
}

/// Most interrupts that a test lets wait.
const PENDING: u32 = 4;

/// Takes the interrupts that are pending. Where ring 0 is emulated, several instructions may pass before that; the
/// write to a port without a device is an exit, and so ends them.
pub(crate) fn open() {
    for _ in 0..PENDING {
        // SAFETY: handlers keep all registers.
        unsafe { asm!("sti", "out 0x80, al", "nop", "cli", options(nostack)) };
    }
}

/// Halts until there is an interrupt, and takes it.
pub(crate) fn halt() {
    // SAFETY: as above.
    unsafe { asm!("sti", "hlt", "cli", options(nostack)) };
}

/// Halts with interrupts off: only an NMI ends that.
pub(crate) fn halt_deaf() {
    // SAFETY: as above.
    unsafe { asm!("cli", "hlt", options(nostack)) };
}

/// The time stamp counter.
pub(crate) fn tsc() -> u64 {
    // SAFETY: no precondition.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Whether the timer of the APIC has the TSC deadline mode.
pub(crate) fn has_deadline() -> bool {
    core::arch::x86_64::__cpuid(1).ecx & 1 << 24 != 0
}

#[repr(C, packed)]
struct Table {
    limit: u16,
    base: u64,
}

static mut GATES: [[u64; 2]; 256] = [[0; 2]; 256];

/// Fills the interrupt table, which all vCPUs share.
pub(crate) fn make_gates() {
    for vector in 0..256u64 {
        let handler = &raw const ring0_vectors as u64 + 16 * vector;
        // An interrupt gate of the code segment 0x10.
        let low = handler & 0xffff | 0x10 << 16 | 0x8e00 << 32 | (handler >> 16 & 0xffff) << 48;
        // SAFETY: only the vCPU that boots runs yet.
        unsafe { GATES[vector as usize] = [low, handler >> 32] };
    }
}

/// Loads the interrupt table into the vCPU that runs this.
pub(crate) fn load_gates() {
    let table = Table { limit: 4095, base: &raw const GATES as u64 };
    // SAFETY: the table is filled and stays.
    unsafe { asm!("lidt [{}]", in(reg) &raw const table, options(nostack)) };
}
