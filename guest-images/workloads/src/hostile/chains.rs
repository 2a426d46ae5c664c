//! Chains of descriptors that are giant, have no end, lead to tables that were not negotiated, or lie nowhere.

use super::attacker::{ARENA_BYTES, Attacker};
use super::device::{Device, VERSION_1};
use super::queue::{
    Descriptor, INDIRECT, LARGEST, NEXT, QUEUE_BYTES, Queue, RECEIVE, TRANSMIT, WRITE, write_descriptor,
};

/// An address that is a device's, and never memory.
const NO_MEMORY: u64 = 0xd000_0000;
/// The last descriptor of a full queue.
const LAST: u16 = LARGEST - 1;

/// Starts the device with one queue, tells it of all that is there, and counts inputs.
fn strike(attacker: &mut Attacker, device: Device, queue: &Queue, inputs: u64) {
    device.bring_up(VERSION_1, &[queue]);
    device.notify(queue);
    attacker.made(inputs);
}

/// A ring full of chains, each of all descriptors, with as much memory in each descriptor as there is.
pub(super) fn giants(attacker: &mut Attacker, device: Device) {
    let mut queue = Queue::new(TRANSMIT, attacker.arena);
    let length = (attacker.arena + ARENA_BYTES - 0x20_0000) as u32;
    for index in 0..LARGEST {
        let flags = if index == LAST { 0 } else { NEXT };
        queue.describe(index, Descriptor { address: 0x20_0000, length, flags, next: (index + 1) % LARGEST });
    }
    (0..LARGEST).for_each(|_| queue.offer(0));
    strike(attacker, device, &queue, 2 * u64::from(LARGEST));
}

/// Chains that lead back to their beginning or to their middle.
pub(super) fn loops(attacker: &mut Attacker, device: Device) {
    let mut queue = Queue::new(TRANSMIT, attacker.arena);
    let back = attacker.random.below(LARGEST.into()) as u16;
    for index in 0..LARGEST {
        let next = if index == LAST { back } else { index + 1 };
        queue.describe(index, Descriptor { address: attacker.arena + QUEUE_BYTES, length: 1, flags: NEXT, next });
    }
    queue.offer(attacker.random.below(LARGEST.into()) as u16);
    strike(attacker, device, &queue, u64::from(LARGEST) + 1);
}

/// A descriptor that leads to a table of descriptors, which was not negotiated. The table leads to itself.
pub(super) fn tables(attacker: &mut Attacker, device: Device) {
    let mut queue = Queue::new(TRANSMIT, attacker.arena);
    let table = attacker.arena + QUEUE_BYTES;
    let reference = Descriptor { address: table, length: 16 * u32::from(u16::MAX), flags: INDIRECT, next: 0 };
    write_descriptor(table, 0, reference);
    for index in 0..LARGEST {
        let flags = INDIRECT | attacker.random.one_of(&[0, NEXT, WRITE]);
        queue.describe(index, Descriptor { flags, ..reference });
        queue.offer(index);
    }
    strike(attacker, device, &queue, 2 * u64::from(LARGEST) + 1);
}

/// Buffers outside of memory, across its end, around the end of all addresses, or for the other direction.
pub(super) fn nowhere(attacker: &mut Attacker, device: Device) {
    let number = attacker.random.one_of(&[RECEIVE, TRANSMIT]);
    let mut queue = Queue::new(number, attacker.arena);
    let good = attacker.arena + QUEUE_BYTES;
    for index in 0..LARGEST {
        let address = attacker.random.one_of(&[NO_MEMORY, NO_MEMORY - 1, u64::MAX - 15, 1 << 63, good]);
        let length = attacker.random.one_of(&[0, 1, 4096, u32::MAX]);
        // A buffer that the device fills lies in memory of this vCPU's own, or nowhere.
        let length = if address == good { length.min(4096) } else { length };
        let flags = attacker.random.one_of(&[0, WRITE]);
        queue.describe(index, Descriptor { address, length, flags, next: 0 });
        queue.offer(index);
    }
    strike(attacker, device, &queue, 2 * u64::from(LARGEST));
}

/// Buffers for received frames that are so small that a frame needs very many of them.
pub(super) fn crumbs(attacker: &mut Attacker, device: Device) {
    let mut queue = Queue::new(RECEIVE, attacker.arena);
    let length = attacker.random.one_of(&[0, 1, 44, 200]);
    for index in 0..LARGEST {
        let flags = if index == LAST { WRITE } else { WRITE | NEXT };
        let address = attacker.arena + QUEUE_BYTES;
        queue.describe(index, Descriptor { address, length, flags, next: (index + 1) % LARGEST });
        queue.offer(index);
    }
    strike(attacker, device, &queue, 2 * u64::from(LARGEST));
}

/// Rings that claim more than they hold, name descriptors that are none, or do both.
pub(super) fn claims(attacker: &mut Attacker, device: Device) {
    let mut queue = Queue::new(attacker.random.one_of(&[RECEIVE, TRANSMIT]), attacker.arena);
    (0..LARGEST).for_each(|_| queue.offer(attacker.random.next() as u16));
    queue.claim(attacker.random.next() as u16);
    strike(attacker, device, &queue, u64::from(LARGEST) + 1);
}
