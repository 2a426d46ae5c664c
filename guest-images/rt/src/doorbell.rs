//! The doorbells, one function each. See [`stile_abi::port`] for their contract.
#![allow(unsafe_code, reason = "port output")]

use crate::clock::{self, Clock, Ticks};
use crate::{Boot, Cpu};
use core::arch::asm;
use core::sync::atomic::Ordering::Relaxed;
use stile_abi::{Hint, KICK_OTHERS, NO_DEADLINE, Queues, port};

/// Rings a doorbell. The compiler must not move memory accesses across it: the monitor reads and writes guest memory
/// in between.
fn ring(port: u16, value: u32) {
    // SAFETY: the monitor handles every doorbell without touching memory the guest did not name.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags)) }
}

/// Prints text, at most [`stile_abi::CONSOLE_MAX`] bytes of it.
pub fn console(cpu: Cpu, text: &[u8]) {
    let text = &text[..text.len().min(stile_abi::CONSOLE_MAX as usize)];
    cpu.call_block().args[0].store(text.as_ptr() as u64, Relaxed);
    ring(port::CONSOLE, text.len() as u32);
}

/// Lets others run; returns when the scheduler gives the pCPU back.
pub fn yield_now(hint: Hint) {
    ring(port::YIELD, hint.pack());
}

/// Blocks until an event or the deadline; returns at once if an event came since the last call.
pub fn idle(cpu: Cpu, until: Option<Ticks>) {
    serve_and_idle(cpu, Queues::NONE, until);
}

/// Announces what is in these queues of the network device, then idles like [`idle`]. Counts a gap if the deadline has
/// passed by then.
pub fn serve_and_idle(cpu: Cpu, queues: Queues, until: Option<Ticks>) {
    cpu.call_block().args[0].store(until.map_or(NO_DEADLINE, |t| t.0), Relaxed);
    ring(port::IDLE, queues.pack());
    if let Some(due) = until {
        cpu.gauge().record_gap(Clock::new(Boot::page()).ns(clock::now().since(due)));
    }
}

/// Blocks until the monitor opens the VM's gate.
pub fn gate() {
    ring(port::GATE, 0);
}

/// Sends an event to another vCPU of this VM.
pub fn kick(vcpu: u32) {
    ring(port::KICK, vcpu);
}

/// Sends an event to all other vCPUs of this VM.
pub fn kick_others() {
    ring(port::KICK, KICK_OTHERS);
}

/// Tells the monitor of a milestone.
pub fn progress(milestone: u32) {
    ring(port::PROGRESS, milestone);
}

/// Reports a named figure. `name` is cut at [`stile_abi::NAME_MAX`] bytes.
pub fn result(cpu: Cpu, name: &str, value: u64) {
    let args = &cpu.call_block().args;
    args[0].store(name.as_ptr() as u64, Relaxed);
    args[1].store((name.len() as u64).min(stile_abi::NAME_MAX), Relaxed);
    args[2].store(value, Relaxed);
    ring(port::RESULT, 0);
}

/// Ends the VM.
pub fn exit(code: u32) -> ! {
    loop {
        ring(port::EXIT, code);
    }
}

/// Writes one byte to the 16550 serial port, which needs no doorbell argument and so works before anything else does.
pub fn serial(byte: u8) {
    // SAFETY: as `ring`; the transmit register of the first serial port.
    unsafe { asm!("out dx, al", in("dx") 0x3f8u16, in("al") byte, options(nostack, preserves_flags)) }
}
