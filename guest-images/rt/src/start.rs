//! Start-up and panic: the two ways into a guest program that are not calls.
//!
//! The monitor starts every vCPU at `_start` with `rdi` = boot-information page, `rsi` = vCPU index and `rsp` = top of
//! its stack. The page is at a fixed address as well, so only the index is passed on.
#![allow(unsafe_code, reason = "the entry point is assembly")]

use crate::{console, doorbell};
use core::fmt::Write;
use core::panic::PanicInfo;
use stile_abi::exit;

core::arch::global_asm!(
    ".pushsection .text._start,\"ax\",@progbits",
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "and rsp, -16",
    "mov edi, esi",
    "call stile_main",
    "ud2",
    ".popsection",
);

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // The serial port, because the handler does not know its vCPU and hence no call block.
    let _ = writeln!(console::Serial, "guest panic: {info}");
    doorbell::exit(exit::PANIC)
}
