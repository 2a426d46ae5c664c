//! Registers of the device, accessed in any order, with any width and any value.

use super::attacker::{ARENA_BYTES, Attacker};
use super::device::{
    Device, QUEUE_AVAIL, QUEUE_DESC, QUEUE_NUM, QUEUE_READY, QUEUE_SEL, QUEUE_USED, STATUS, STATUSES, WINDOW,
};
use super::raw::{WIDTHS, load, store};

/// Accesses in a round.
const ROUND: u64 = 64;

/// Any offset, width and value.
pub(super) fn noise(attacker: &mut Attacker, device: Device) {
    for _ in 0..ROUND {
        let width = attacker.random.one_of(&WIDTHS);
        // A whole access within the window: what lies behind it is no device's.
        let at = device.register(attacker.random.below(WINDOW - 7));
        match attacker.random.below(4) {
            0 => _ = load(at, width),
            _ => store(at, width, attacker.random.next()),
        }
    }
    attacker.made(ROUND);
}

/// The steps of an initialisation, in any order, with rings anywhere but where the device would write over what this
/// program counts on.
pub(super) fn disorder(attacker: &mut Attacker, device: Device) {
    for _ in 0..ROUND {
        let value = attacker.random.next() as u32;
        let queue = attacker.random.below(3) as u32;
        match value % 8 {
            0 | 1 => device.write(STATUS, attacker.random.one_of(&STATUSES)),
            2 => device.write(STATUS, value >> 8),
            3 => device.write(QUEUE_SEL, queue),
            4 => device.write(QUEUE_NUM, attacker.random.one_of(&[0, 1, 2, 3, 256, 257, 1 << 16, value])),
            5 => device.write(QUEUE_READY, value >> 8 & 1),
            6 => {
                let register = attacker.random.one_of(&[QUEUE_DESC, QUEUE_AVAIL, QUEUE_USED]);
                device.write(register, ring_place(attacker));
            }
            _ => {
                let register = attacker.random.one_of(&[QUEUE_DESC, QUEUE_AVAIL, QUEUE_USED]);
                device.write(register + 4, attacker.random.one_of(&[0, 0, 0, 1, u32::MAX]));
            }
        }
    }
    attacker.made(ROUND);
}

/// An address within the attacker's own memory, or of no memory.
fn ring_place(attacker: &mut Attacker) -> u32 {
    match attacker.random.below(4) {
        0 => attacker.random.one_of(&[0, 0xd000_0000, u32::MAX]),
        _ => (attacker.arena + attacker.random.below(ARENA_BYTES / 2)) as u32,
    }
}
