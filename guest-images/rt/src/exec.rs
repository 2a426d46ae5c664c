//! Replaces the program by itself: the monitor gives the VM fresh memory with fresh page tables and loads the image
//! again.
//!
//! One store to a device, which the monitor gave the VM for this, does it. No memory survives but the gauges and the
//! steals. So the code after the store uses registers only: the top of the first stack, and the address of the entry.

use crate::Boot;

/// Whether the VM has such a device.
pub fn is_possible() -> bool {
    Boot::page().device_mmio().is_some()
}

/// Ends this program and starts it again. Only for VMs of one vCPU.
///
/// # Panics
/// If the VM has no device for it.
pub fn exec() -> ! {
    let device = Boot::page().device_mmio().expect("the monitor gave a device");
    // The stacks end where the heap begins; see the monitor's layout.
    let (top, _) = Boot::page().heap();
    enter(device, top)
}

#[cfg(feature = "guest")]
#[allow(unsafe_code, reason = "nothing the compiler knows of survives")]
fn enter(device: u64, top: u64) -> ! {
    // SAFETY: the store is to a device register. From then on only registers are used until the entry point, and the
    // entry point needs no more than these.
    unsafe {
        core::arch::asm!(
            "mov dword ptr [rax], ecx",
            "mov rsp, rdx",
            "xor esi, esi",
            "jmp _start",
            in("rax") device,
            in("ecx") 1,
            in("rdx") top,
            options(noreturn)
        )
    }
}

#[cfg(not(feature = "guest"))]
fn enter(_device: u64, _top: u64) -> ! {
    unreachable!("only a guest has such a device")
}
