//! The registers of the interrupt controllers, and the interrupts that a vCPU has taken.

use crate::assembly::{RING0_COUNTS, RING0_ORDER};
use crate::cpu;
use core::sync::atomic::Ordering::SeqCst;

pub(crate) const ID: u32 = 0x802;
pub(crate) const VERSION: u32 = 0x803;
pub(crate) const TPR: u32 = 0x808;
pub(crate) const PPR: u32 = 0x80a;
pub(crate) const EOI: u32 = 0x80b;
pub(crate) const LDR: u32 = 0x80d;
pub(crate) const SVR: u32 = 0x80f;
pub(crate) const ISR: u32 = 0x810;
pub(crate) const IRR: u32 = 0x820;
pub(crate) const ESR: u32 = 0x828;
pub(crate) const ICR: u32 = 0x830;
pub(crate) const LVT_TIMER: u32 = 0x832;
pub(crate) const LVT_ERROR: u32 = 0x837;
pub(crate) const INITIAL: u32 = 0x838;
pub(crate) const CURRENT: u32 = 0x839;
pub(crate) const DIVIDE: u32 = 0x83e;
pub(crate) const SELF_IPI: u32 = 0x83f;
pub(crate) const DEADLINE: u32 = 0x6e0;
pub(crate) const BASE: u32 = 0x1b;

/// Delivery modes and other bits of the interrupt command register.
pub(crate) const NMI: u64 = 4 << 8;
pub(crate) const INIT: u64 = 5 << 8 | 1 << 14;
pub(crate) const START: u64 = 6 << 8 | 1 << 14;
pub(crate) const LOGICAL: u64 = 1 << 11;
pub(crate) const TO_ITSELF: u64 = 1 << 18;
pub(crate) const TO_ALL: u64 = 2 << 18;
pub(crate) const TO_OTHERS: u64 = 3 << 18;

/// Turns the local APIC of this vCPU on, in x2APIC mode.
pub(crate) fn turn_on() {
    let base = cpu::read(BASE).unwrap_or(0);
    cpu::write(BASE, base | 3 << 10);
    cpu::write(SVR, 0x1ff);
    cpu::write(TPR, 0);
}

/// Sends an interrupt.
pub(crate) fn send(command: u64, to: u32) {
    cpu::write(ICR, u64::from(to) << 32 | command);
}

/// How often a vCPU has taken this vector.
pub(crate) fn taken(vcpu: usize, vector: u8) -> u32 {
    RING0_COUNTS[vcpu][usize::from(vector)].load(SeqCst)
}

/// The latest vectors that this vCPU took, the latest in the lowest byte.
pub(crate) fn order() -> u64 {
    RING0_ORDER[cpu::index()].load(SeqCst)
}

/// An entry of the I/O APIC.
pub(crate) fn set_line(pin: u32, low: u32, high: u32) {
    write_io(0x11 + 2 * pin, high);
    write_io(0x10 + 2 * pin, low);
}

fn write_io(register: u32, value: u32) {
    let base = 0xfec0_0000 as *mut u32;
    // SAFETY: the I/O APIC's registers are there, and mapped.
    unsafe {
        base.write_volatile(register);
        base.add(4).write_volatile(value);
    }
}
