//! Accesses to ports and memory that no well-behaved program makes.
#![allow(unsafe_code, reason = "to do what is not allowed is what this program is for")]

use core::arch::asm;

/// The width of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// 1 byte.
    Byte,
    /// 2 bytes.
    Word,
    /// 4 bytes.
    Long,
    /// 8 bytes; not for ports.
    Quad,
}

/// All widths of accesses to memory.
pub(super) const WIDTHS: [Width; 4] = [Width::Byte, Width::Word, Width::Long, Width::Quad];

/// Writes to a port.
pub(super) fn output(port: u16, width: Width, value: u32) {
    // SAFETY: the monitor handles it or ends the VM, and touches no memory that this program counts on.
    unsafe {
        match width {
            Width::Byte => asm!("out dx, al", in("dx") port, in("eax") value, options(nostack, preserves_flags)),
            Width::Word => asm!("out dx, ax", in("dx") port, in("eax") value, options(nostack, preserves_flags)),
            Width::Long | Width::Quad => {
                asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags));
            }
        }
    }
}

/// Reads from a port.
pub(super) fn input(port: u16, width: Width) -> u32 {
    let value;
    // SAFETY: as `output`.
    unsafe {
        match width {
            Width::Byte => asm!("in al, dx", in("dx") port, inout("eax") 0 => value, options(nostack)),
            Width::Word => asm!("in ax, dx", in("dx") port, inout("eax") 0 => value, options(nostack)),
            Width::Long | Width::Quad => asm!("in eax, dx", in("dx") port, out("eax") value, options(nostack)),
        }
    }
    value
}

/// Reads `count` bytes from a port to `to` with one instruction.
pub(super) fn input_string(port: u16, to: u64, count: u64) {
    // SAFETY: as `store`.
    unsafe {
        asm!("rep insb", in("dx") port, inout("rdi") to => _, inout("rcx") count => _, options(nostack));
    }
}

/// Writes to an address, whatever is there.
pub(super) fn store(address: u64, width: Width, value: u64) {
    // SAFETY: memory of the VM's own heap, a device, or an access that ends the VM.
    unsafe {
        match width {
            Width::Byte => (address as *mut u8).write_volatile(value as u8),
            Width::Word => asm!("mov [{}], {:x}", in(reg) address, in(reg) value, options(nostack)),
            Width::Long => asm!("mov [{}], {:e}", in(reg) address, in(reg) value, options(nostack)),
            Width::Quad => asm!("mov [{}], {}", in(reg) address, in(reg) value, options(nostack)),
        }
    }
}

/// Reads from an address, whatever is there.
pub(super) fn load(address: u64, width: Width) -> u64 {
    let value: u64;
    // SAFETY: as `store`.
    unsafe {
        match width {
            Width::Byte => asm!("movzx {:e}, byte ptr [{}]", out(reg) value, in(reg) address, options(nostack)),
            Width::Word => asm!("movzx {:e}, word ptr [{}]", out(reg) value, in(reg) address, options(nostack)),
            Width::Long => asm!("mov {:e}, [{}]", out(reg) value, in(reg) address, options(nostack)),
            Width::Quad => asm!("mov {}, [{}]", out(reg) value, in(reg) address, options(nostack)),
        }
    }
    value
}

/// Sets `bytes` bytes of the VM's own heap to 0.
pub(super) fn clear(address: u64, bytes: u64) {
    // SAFETY: the caller names memory of its own.
    unsafe { core::ptr::write_bytes(address as *mut u8, 0, bytes as usize) };
}

/// Halts, which no program at CPL 3 may.
pub(super) fn halt() {
    // SAFETY: it faults.
    unsafe { asm!("hlt", options(nomem, nostack)) };
}

/// Executes an instruction that is none.
pub(super) fn undefined() {
    // SAFETY: it faults.
    unsafe { asm!("ud2", options(nomem, nostack)) };
}

/// Spins in a loop that has a PAUSE, and another one whose address is in the middle of an instruction.
pub(super) fn spin(loops: u64) {
    // SAFETY: reads and writes one register. The bytes after `jmp` are the immediate of `mov` and a PAUSE as well.
    unsafe {
        asm!(
            "2:", "pause", "dec {n}", "jnz 2b",
            "mov {n}, {m}",
            "3:", "jmp 4f + 1",
            "4:", ".byte 0xb8, 0xf3, 0x90, 0x90, 0x90", // mov eax, 0x909090f3; from its second byte: pause
            "dec {n}", "jnz 3b",
            n = inout(reg) loops => _, m = in(reg) loops, out("eax") _, options(nomem, nostack)
        );
    }
}
