//! Storms of doorbells and of the serial port, with every argument that is allowed.

use super::attacker::{ARENA_BYTES, Attacker};
use super::raw::{Width, input, output, store};
use core::sync::atomic::Ordering::Relaxed;
use stile_rt::abi::{CONSOLE_MAX, Hint, HintKind, KICK_OTHERS, port};
use stile_rt::{clock, doorbell};

/// First register of the serial port; it has eight.
const SERIAL: u16 = 0x3f8;
/// Doorbells in a round.
const ROUND: u64 = 64;

/// Doorbells of every kind, in any order.
pub(super) fn storm(attacker: &mut Attacker) {
    for _ in 0..ROUND {
        let value = attacker.random.next() as u32;
        match value % 5 {
            0 => kick(attacker),
            1 => hint(attacker),
            2 => doorbell::idle(attacker.cpu, Some(clock::now())),
            3 => doorbell::progress(value),
            _ => print(attacker, u64::from(value) % 64),
        }
    }
    attacker.made(ROUND);
}

/// Kicks of all others, of one, and of the caller.
pub(super) fn kicks(attacker: &mut Attacker) {
    for _ in 0..ROUND {
        kick(attacker);
    }
    attacker.made(ROUND);
}

fn kick(attacker: &mut Attacker) {
    let target = if attacker.random.below(2) == 0 { KICK_OTHERS } else { attacker.any_vcpu() };
    output(port::KICK, Width::Long, target);
}

/// Hints that name any vCPU, the caller too, as holder or as peer, again or not.
pub(super) fn hints(attacker: &mut Attacker) {
    for _ in 0..ROUND {
        hint(attacker);
    }
    attacker.made(ROUND);
}

fn hint(attacker: &mut Attacker) {
    let target = attacker.any_vcpu() as u16;
    let kinds = [HintKind::Unknown, HintKind::Lock { holder: target }, HintKind::Message { peer: target }];
    let kind = attacker.random.one_of(&kinds);
    doorbell::yield_now(Hint { kind, again: attacker.random.below(2) == 0 });
}

/// Texts as long as they may be, of any memory of the VM.
pub(super) fn prints(attacker: &mut Attacker) {
    for _ in 0..ROUND {
        print(attacker, CONSOLE_MAX.into());
    }
    attacker.made(ROUND);
}

fn print(attacker: &mut Attacker, length: u64) {
    let from = attacker.random.below(attacker.arena + ARENA_BYTES - length);
    attacker.cpu.call_block().args[0].store(from, Relaxed);
    output(port::CONSOLE, Width::Long, length as u32);
}

/// Sequences that would take a terminal over, through the console and the serial port.
pub(super) fn escapes(attacker: &mut Attacker) {
    let text = b"\x1b[2J\x1b]0;x\x07\x90\x9b\r\n\0\xe2\x80\xae";
    for (at, byte) in (attacker.arena..).zip(text) {
        store(at, Width::Byte, u64::from(*byte));
    }
    for byte in text {
        attacker.cpu.call_block().args[0].store(attacker.arena, Relaxed);
        output(port::CONSOLE, Width::Long, text.len() as u32);
        output(SERIAL, Width::Byte, u32::from(*byte));
    }
    attacker.made(2 * text.len() as u64);
}

/// Every register of the serial port, read and written.
pub(super) fn serial(attacker: &mut Attacker) {
    for _ in 0..ROUND / 2 {
        let register = SERIAL + attacker.random.below(8) as u16;
        output(register, Width::Byte, attacker.random.next() as u32);
        input(register, Width::Byte);
    }
    attacker.made(ROUND);
}
