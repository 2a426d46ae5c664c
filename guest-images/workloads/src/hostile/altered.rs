//! A spin loop whose instructions the device alters, while the monitor may read them to find out whether the vCPU
//! spins.
//!
//! No memory is both writable and executable for the guest. But the used ring of a queue may lie in any memory, in the
//! program's instructions too. Each of its elements has 8 bytes: the number of a descriptor and a length of 0. As
//! instructions these are four additions to memory, or what [`OPCODES`] makes of the first of them.
#![cfg_attr(feature = "guest", allow(unsafe_code, reason = "code that is altered is none that the compiler knows"))]

use super::attacker::Attacker;
use super::device::{Device, STATUS, VERSION_1};
use super::queue::{Descriptor, QUEUE_BYTES, Queue, TRANSMIT};

/// Elements of the ring that are instructions of the loop.
const ELEMENTS: usize = 4;
/// Numbers of descriptors. With a 0 behind it each is an instruction that needs no more than the address of memory in
/// RAX: additions, logical operations, comparisons and moves.
const OPCODES: [u16; 16] =
    [0x00, 0x01, 0x08, 0x09, 0x20, 0x21, 0x28, 0x29, 0x30, 0x31, 0x38, 0x39, 0x84, 0x85, 0x88, 0x89];
/// Most turns of the loop.
const TURNS: u64 = 500;

/// Alters the loop, and spins in it.
pub(super) fn spins(attacker: &mut Attacker, device: Device) {
    let mut queue = Queue::new(TRANSMIT, attacker.arena);
    queue.used = ring();
    for _ in 0..ELEMENTS {
        let head = attacker.random.one_of(&OPCODES);
        let address = attacker.arena + QUEUE_BYTES;
        queue.describe(head, Descriptor { address, length: 60, flags: 0, next: 0 });
        queue.offer(head);
    }
    device.bring_up(VERSION_1, &[&queue]);
    device.notify(&queue);
    spin(1 + attacker.random.below(TURNS), attacker.arena + QUEUE_BYTES);
    // No other attack finds the ring there.
    device.write(STATUS, 0);
    attacker.made(1 + ELEMENTS as u64);
}

#[cfg(feature = "guest")]
core::arch::global_asm!(
    ".pushsection .text.hostile_altered,\"ax\",@progbits",
    ".globl hostile_altered",
    "hostile_altered:",
    "mov rax, rsi",
    "mov rcx, rdi",
    "jmp 2f",
    ".balign 4",
    ".globl hostile_ring",
    "hostile_ring:",
    ".long 0", // flags and index of the ring
    "2:",
    ".fill 32", // its first elements
    "pause",
    "dec rcx",
    "jnz 2b",
    "ret",
    ".popsection",
);

#[cfg(feature = "guest")]
unsafe extern "C" {
    fn hostile_altered(turns: u64, scratch: u64);
    static hostile_ring: u32;
}

/// Address of the ring.
#[cfg(feature = "guest")]
fn ring() -> u64 {
    &raw const hostile_ring as u64
}

/// Spins for so many turns, from 1. `scratch` is memory that may change.
#[cfg(feature = "guest")]
fn spin(turns: u64, scratch: u64) {
    // SAFETY: the function keeps the calling convention. All that the device makes of the loop writes to `scratch`.
    unsafe { hostile_altered(turns, scratch) }
}

#[cfg(not(feature = "guest"))]
fn ring() -> u64 {
    unreachable!("only a guest has such a loop")
}

#[cfg(not(feature = "guest"))]
fn spin(_turns: u64, _scratch: u64) {
    unreachable!("only a guest has such a loop")
}
