//! Frames that a guest may not send, or not so many of them.

use super::attacker::{ARENA_BYTES, Attacker};
use super::device::{Device, VERSION_1};
use super::queue::{Descriptor, LARGEST, QUEUE_BYTES, Queue, TRANSMIT};
use super::raw::{Width, store};

/// Header before each frame (unit: bytes).
const HEADER: u64 = 12;
/// Longest frame (unit: bytes).
const FRAME: u64 = 1514;
/// Room for a frame and its header (unit: bytes).
const SLOT: u64 = 2048;
/// Frames of a round that differ. The ring has their descriptors several times.
const FRAMES: u16 = 16;
/// To all.
const BROADCAST: [u8; 6] = [0xff; 6];

/// MAC of a port of the switch.
fn mac_of(port: u16) -> [u8; 6] {
    let [hi, lo] = port.to_be_bytes();
    [0x52, 0x54, 0, 0, hi, lo]
}

/// A MAC of a neighbour, or of nobody.
fn any_mac(attacker: &mut Attacker) -> [u8; 6] {
    let port = attacker.random.below(u64::from(attacker.peers) + 2) as u16;
    mac_of(port)
}

/// Fills a ring with frames, whose source and destination `addresses` tells, and sends them.
fn send(
    attacker: &mut Attacker,
    device: Device,
    mut addresses: impl FnMut(&mut Attacker) -> ([u8; 6], [u8; 6]),
    mut length: impl FnMut(&mut Attacker) -> u64,
) {
    let mut queue = Queue::new(TRANSMIT, attacker.arena);
    for frame in 0..FRAMES {
        let at = attacker.arena + QUEUE_BYTES + SLOT * u64::from(frame);
        let (source, destination) = addresses(attacker);
        for (place, byte) in (at + HEADER..).zip(destination.into_iter().chain(source).chain([8, 0])) {
            store(place, Width::Byte, byte.into());
        }
        let length = length(attacker);
        for index in (frame..LARGEST).step_by(FRAMES.into()) {
            queue.describe(index, Descriptor { address: at, length: length as u32, flags: 0, next: 0 });
        }
    }
    (0..LARGEST).for_each(|index| queue.offer(index));
    device.bring_up(VERSION_1, &[&queue]);
    device.notify(&queue);
    attacker.made(LARGEST.into());
}

/// Frames from the addresses of others, to anyone.
pub(super) fn stolen_macs(attacker: &mut Attacker, device: Device) {
    let addresses = |attacker: &mut Attacker| (any_mac(attacker), any_mac(attacker));
    send(attacker, device, addresses, |attacker| HEADER + 60 + attacker.random.below(FRAME - 59));
}

/// Frames for all, as fast as they can be sent.
pub(super) fn group_floods(attacker: &mut Attacker, device: Device) {
    let own = device.mac();
    send(attacker, device, |_| (own, BROADCAST), |_| HEADER + FRAME);
}

/// Frames for one neighbour after the other, as fast as they can be sent.
pub(super) fn peer_floods(attacker: &mut Attacker, device: Device) {
    let own = device.mac();
    send(attacker, device, |attacker| (own, any_mac(attacker)), |_| HEADER + FRAME);
}

/// Frames that are shorter than their header, or longer than any frame.
pub(super) fn wrong_sizes(attacker: &mut Attacker, device: Device) {
    let own = device.mac();
    let length = |attacker: &mut Attacker| match attacker.random.below(2) {
        0 => attacker.random.below(HEADER + 15),
        _ => HEADER + FRAME + 1 + attacker.random.below(ARENA_BYTES / 2),
    };
    send(attacker, device, |attacker| (own, any_mac(attacker)), length);
}
