//! Attacks that have to end the attacker's own VM.

use super::attacker::Attacker;
use super::device::{Device, VERSION_1, WINDOW};
use super::queue::{Descriptor, LARGEST, QUEUE_BYTES, Queue, TRANSMIT};
use super::raw::{Width, halt, input, input_string, load, output, store, undefined};
use core::sync::atomic::Ordering::Relaxed;
use stile_rt::abi::{BOOT_INFO_GPA, CONSOLE_MAX, IMAGE_MIN_GPA, NAME_MAX, port};
use stile_rt::doorbell;

/// The index of a vCPU that no VM has.
pub(super) const STRANGER: u32 = 1024;
/// The monitor's table of segments in guest memory.
const SEGMENTS: u64 = 0x2000;
/// More results than the monitor keeps.
const RESULTS: u64 = 10_000;

pub(super) fn unknown_port(_: &mut Attacker) {
    output(0x123, Width::Long, 0);
}

/// Behind the ports that the guest is permitted to reach.
pub(super) fn far_port(_: &mut Attacker) {
    output(0x1234, Width::Long, 0);
}

pub(super) fn narrow_doorbell(_: &mut Attacker) {
    output(port::KICK, Width::Word, 0);
}

pub(super) fn crooked_doorbell(_: &mut Attacker) {
    output(port::KICK + 1, Width::Long, 0);
}

pub(super) fn read_doorbell(_: &mut Attacker) {
    input(port::IDLE, Width::Long);
}

pub(super) fn serial_string(attacker: &mut Attacker) {
    input_string(0x3f8, attacker.arena, 2);
}

pub(super) fn forged_exception(_: &mut Attacker) {
    output(port::FAULT + 14, Width::Byte, 0);
}

pub(super) fn hint_of_a_stranger(_: &mut Attacker) {
    output(port::YIELD, Width::Long, 1 << 16 | STRANGER);
}

pub(super) fn hint_of_nothing(_: &mut Attacker) {
    output(port::YIELD, Width::Long, u32::MAX);
}

pub(super) fn kick_of_a_stranger(_: &mut Attacker) {
    output(port::KICK, Width::Long, STRANGER);
}

pub(super) fn long_print(attacker: &mut Attacker) {
    call(attacker, port::CONSOLE, CONSOLE_MAX + 1, [attacker.arena, 0, 0]);
}

pub(super) fn print_of_no_memory(attacker: &mut Attacker) {
    call(attacker, port::CONSOLE, 16, [u64::MAX - 7, 0, 0]);
}

pub(super) fn long_name(attacker: &mut Attacker) {
    call(attacker, port::RESULT, 0, [attacker.arena, NAME_MAX + 1, 0]);
}

pub(super) fn name_of_no_memory(attacker: &mut Attacker) {
    call(attacker, port::RESULT, 0, [0xd000_0000, 8, 0]);
}

pub(super) fn name_of_no_text(attacker: &mut Attacker) {
    store(attacker.arena, Width::Byte, 0xff);
    call(attacker, port::RESULT, 0, [attacker.arena, 1, 0]);
}

/// Rings a doorbell with arguments.
fn call(attacker: &Attacker, port: u16, value: u32, arguments: [u64; 3]) {
    for (place, argument) in attacker.cpu.call_block().args.iter().zip(arguments) {
        place.store(argument, Relaxed);
    }
    output(port, Width::Long, value);
}

pub(super) fn results(attacker: &mut Attacker) {
    for value in 0..RESULTS {
        doorbell::result(attacker.cpu, "\x1b[2J", value);
    }
}

pub(super) fn boot_page(_: &mut Attacker) {
    store(BOOT_INFO_GPA, Width::Quad, 0);
}

pub(super) fn own_text(_: &mut Attacker) {
    store(IMAGE_MIN_GPA, Width::Quad, 0);
}

pub(super) fn segments(_: &mut Attacker) {
    store(SEGMENTS, Width::Quad, 0);
}

pub(super) fn no_memory(_: &mut Attacker) {
    load(0xcfff_f000, Width::Quad);
}

pub(super) fn halts(_: &mut Attacker) {
    halt();
}

/// Across the end of the registers.
pub(super) fn behind_registers(_: &mut Attacker, device: Device) {
    store(device.register(WINDOW - 4), Width::Quad, 0);
}

/// Has the device write its used ring over the monitor's table of segments, and then needs that table.
pub(super) fn overwritten_segments(attacker: &mut Attacker, device: Device) {
    let mut queue = Queue::new(TRANSMIT, attacker.arena);
    queue.used = SEGMENTS;
    for index in 0..LARGEST {
        let address = attacker.arena + QUEUE_BYTES;
        queue.describe(index, Descriptor { address, length: 60, flags: 0, next: 0 });
        queue.offer(index);
    }
    device.bring_up(VERSION_1, &[&queue]);
    device.notify(&queue);
    undefined();
}
