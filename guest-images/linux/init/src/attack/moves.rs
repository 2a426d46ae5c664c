//! The attacks: what a driver must not do, and what it may do but none would.

use super::arena::PAGE;
use super::attacker::{AVAILABLE, Attacker, DESCRIPTORS, Descriptor, INDIRECT, NEXT, SIZE, TABLE, TEXT, USED, WRITE};
use super::device::{
    BLOCK, CONFIG, CONSOLE, DRIVER_FEATURES, DRIVER_FEATURES_SEL, INTERRUPT_ACK, NET, PLACES, QUEUE_NOTIFY, QUEUE_NUM,
    QUEUE_READY, QUEUE_SEL, STATUS, STATUSES, VSOCK,
};

/// An attack, with its name.
pub(super) type Move = (&'static str, fn(&mut Attacker));

/// An address that is no memory.
const NOWHERE: [u64; 4] = [0xd000_0000, u64::MAX - 15, 1 << 63, 0xfee0_0000];

const ANY: [Move; 7] = [
    ("registers", registers),
    ("disorder", disorder),
    ("resets", resets),
    ("chains", chains),
    ("tables", tables),
    ("crumbs", crumbs),
    ("claims", claims),
];
const OF_NET: [Move; 8] = beside(("frames", frames));
const OF_BLOCK: [Move; 8] = beside(("requests", requests));
const OF_CONSOLE: [Move; 8] = beside(("floods", floods));
const OF_VSOCK: [Move; 8] = beside(("packets", packets));

const fn beside(one: Move) -> [Move; 8] {
    let [a, b, c, d, e, f, g] = ANY;
    [a, b, c, d, e, f, g, one]
}

/// The attacks on a kind of device.
pub(super) fn of(kind: u32) -> &'static [Move] {
    match kind {
        NET => &OF_NET,
        BLOCK => &OF_BLOCK,
        CONSOLE => &OF_CONSOLE,
        VSOCK => &OF_VSOCK,
        _ => &ANY,
    }
}

/// Any register but those of places, with any width and value.
fn registers(attacker: &mut Attacker) {
    for _ in 0..64 {
        let offset = attacker.random.usize(..PAGE - 8);
        let is_place = (PLACES[0]..PLACES[2] + 8).any(|place| (offset..offset + 8).contains(&place));
        let value = attacker.random.u64(..).to_le_bytes();
        let width = attacker.one_of(&[1, 2, 4, 8]);
        match attacker.random.u8(..4) {
            0 => _ = attacker.device.read(offset & !3),
            _ if !is_place => attacker.device.write_narrow(offset, &value[..width]),
            _ => {}
        }
        attacker.inputs += 1;
    }
}

/// The steps of an initialisation in any order.
fn disorder(attacker: &mut Attacker) {
    attacker.fresh();
    for _ in 0..64 {
        let (value, queue) = (attacker.random.u32(..), attacker.queue());
        let page = attacker.one_of(&[AVAILABLE, USED, TABLE]);
        let place = attacker.arena.address(page);
        let place = if attacker.random.u8(..8) == 0 { attacker.one_of(&NOWHERE) } else { place };
        let register = attacker.one_of(&PLACES);
        let device = &attacker.device;
        match value % 9 {
            0 | 1 => device.write(STATUS, STATUSES[value as usize / 16 % 4]),
            2 => device.write(STATUS, value >> 8),
            3 => device.write(QUEUE_SEL, queue),
            4 => device.write(QUEUE_NUM, [0, 1, 3, 64, 256, 257, 1 << 16, value][value as usize / 16 % 8]),
            5 => device.write(QUEUE_READY, value >> 8 & 1),
            6 => {
                device.write(register, place as u32);
                device.write(register + 4, (place >> 32) as u32);
            }
            7 => {
                device.write(DRIVER_FEATURES_SEL, value >> 8 & 3);
                device.write(DRIVER_FEATURES, value);
            }
            _ => device.write(QUEUE_NOTIFY, queue),
        }
        attacker.inputs += 1;
    }
}

/// Resets while the device works, and interrupts that are acknowledged before they come.
fn resets(attacker: &mut Attacker) {
    attacker.fresh();
    let queue = attacker.queue();
    let address = attacker.buffer();
    for index in 0..SIZE {
        let flags = attacker.one_of(&[0, WRITE]);
        attacker.describe(DESCRIPTORS, index, Descriptor { address, length: PAGE as u32, flags, next: 0 });
    }
    attacker.offer(&(0..SIZE).collect::<Vec<_>>(), SIZE);
    for _ in 0..16 {
        attacker.strike(queue);
        let value = attacker.random.u32(..);
        match value % 3 {
            0 => attacker.device.reset(),
            1 => attacker.device.write(QUEUE_READY, 0),
            _ => attacker.device.write(INTERRUPT_ACK, value),
        }
    }
}

/// Chains that lead anywhere: giant, without an end, nowhere, or in the wrong direction.
fn chains(attacker: &mut Attacker) {
    attacker.fresh();
    let queue = attacker.queue();
    let has_loops = attacker.random.bool();
    for index in 0..SIZE {
        let own = attacker.buffer();
        let address = if attacker.random.u8(..8) == 0 { attacker.one_of(&NOWHERE) } else { own };
        let flags = attacker.one_of(&[0, NEXT, WRITE, NEXT | WRITE, 1 << 7 | NEXT]);
        // What a device writes stays within the page.
        let lengths =
            if flags & WRITE == 0 { [0, 1, 12, 44, 4096, 1 << 20, u32::MAX] } else { [0, 1, 12, 16, 44, 512, 4096] };
        let length = attacker.one_of(&lengths);
        let next = if has_loops { attacker.random.u16(..SIZE) } else { (index + 1) % SIZE };
        let next = if attacker.random.u8(..32) == 0 { attacker.random.u16(..) } else { next };
        attacker.describe(DESCRIPTORS, index, Descriptor { address, length, flags, next });
    }
    let heads: Vec<u16> = (0..SIZE).map(|_| attacker.random.u16(..SIZE)).collect();
    attacker.offer(&heads, SIZE);
    attacker.strike(queue);
}

/// Tables of descriptors: of odd sizes, within tables, or leading to themselves.
fn tables(attacker: &mut Attacker) {
    attacker.fresh();
    let queue = attacker.queue();
    let table = attacker.arena.address(TABLE);
    for index in 0..SIZE {
        let flags = attacker.one_of(&[NEXT, NEXT | WRITE, WRITE, 0, INDIRECT]);
        let address = if flags == INDIRECT { table } else { attacker.buffer() };
        let next = attacker.one_of(&[(index + 1) % SIZE, index, 0, u16::MAX]);
        attacker.describe(TABLE, index, Descriptor { address, length: 64, flags, next });
        let flags = INDIRECT | attacker.one_of(&[0, 0, NEXT, WRITE]);
        let length = attacker.one_of(&[16, 1024, 0, 15, 17, 4096, 1 << 20, u32::MAX]);
        attacker.describe(DESCRIPTORS, index, Descriptor { address: table, length, flags, next: (index + 1) % SIZE });
    }
    attacker.offer(&(0..SIZE).collect::<Vec<_>>(), SIZE);
    attacker.strike(queue);
}

/// Buffers so small that what is to be received needs very many of them.
fn crumbs(attacker: &mut Attacker) {
    attacker.fresh();
    let length = attacker.one_of(&[0, 1, 44, 200]);
    for index in 0..SIZE {
        let flags = if index == SIZE - 1 { WRITE } else { WRITE | NEXT };
        let address = attacker.buffer();
        attacker.describe(DESCRIPTORS, index, Descriptor { address, length, flags, next: (index + 1) % SIZE });
    }
    attacker.offer(&(0..SIZE).collect::<Vec<_>>(), SIZE);
    attacker.strike(0);
}

/// Rings that claim more than they hold, name descriptors that are none, or both.
fn claims(attacker: &mut Attacker) {
    attacker.fresh();
    let queue = attacker.queue();
    let heads: Vec<u16> = (0..SIZE).map(|_| attacker.random.u16(..)).collect();
    let claimed = attacker.random.u16(..);
    attacker.offer(&heads, claimed);
    attacker.strike(queue);
}

/// Sends this from the page of text, in a chain of so many equal descriptors, from each place of the ring.
fn send(attacker: &mut Attacker, queue: u32, text: &[u8], length: u32) {
    attacker.arena.write(TEXT, 0, text);
    let address = attacker.arena.address(TEXT);
    for index in 0..SIZE {
        let flags = if index % 16 == 15 { 0 } else { attacker.one_of(&[0, NEXT]) };
        attacker.describe(DESCRIPTORS, index, Descriptor { address, length, flags, next: (index + 1) % SIZE });
    }
    attacker.offer(&(0..SIZE).collect::<Vec<_>>(), SIZE);
    attacker.strike(queue);
}

/// Frames from and to any station, of any length.
fn frames(attacker: &mut Attacker) {
    attacker.fresh();
    let mut frame: Vec<u8> = (0..256).map(|_| attacker.random.u8(..)).collect();
    frame[..12].fill(0);
    // To one of the first ports, to all, or to nobody.
    let to = attacker.one_of(&[[0x52, 0x54, 0, 0, 0, 1], [0x52, 0x54, 0, 0, 0, 2], [0xff; 6], [2; 6]]);
    frame[12..18].copy_from_slice(&to);
    if attacker.random.bool() {
        frame[18..24].copy_from_slice(&[0x52, 0x54, 0, 0, 0, attacker.random.u8(..8)]);
    }
    let length = attacker.one_of(&[0, 12, 13, 26, 60, 256, 1526, 4096]);
    send(attacker, 1, &frame, length);
}

/// Text without end, with sequences that would take a terminal over.
fn floods(attacker: &mut Attacker) {
    attacker.fresh();
    let mut text: Vec<u8> = (0..PAGE).map(|_| attacker.random.u8(..)).collect();
    let sequences = b"\x1b[2J\x1b]0;x\x07\x90\x9b\r\n\0";
    text[..sequences.len()].copy_from_slice(sequences);
    send(attacker, 1, &text, PAGE as u32);
}

/// Packets with any operation in any state, and any credit.
fn packets(attacker: &mut Attacker) {
    attacker.fresh();
    let mut packet = [0_u8; 44];
    let cid = |attacker: &mut Attacker| attacker.one_of(&[2_u64, 3, 3, 1, 0, u64::MAX]);
    let (from, to) = (cid(attacker), cid(attacker));
    packet[..8].copy_from_slice(&from.to_le_bytes());
    packet[8..16].copy_from_slice(&to.to_le_bytes());
    let port = attacker.random.u32(..4) + 7700;
    packet[16..20].copy_from_slice(&port.to_le_bytes());
    packet[20..24].copy_from_slice(&attacker.one_of(&[7700, 7701, 0, u32::MAX]).to_le_bytes());
    packet[24..28].copy_from_slice(&attacker.one_of(&[0, 1, 64, 1 << 16, u32::MAX]).to_le_bytes());
    packet[28..30].copy_from_slice(&attacker.one_of(&[1_u16, 1, 2, 0, u16::MAX]).to_le_bytes());
    packet[30..32].copy_from_slice(&attacker.random.u16(..10).to_le_bytes());
    packet[32..36].copy_from_slice(&attacker.random.u32(..4).to_le_bytes());
    for credit in [36..40, 40..44] {
        packet[credit].copy_from_slice(&attacker.one_of(&[0, 1, 1 << 16, u32::MAX]).to_le_bytes());
    }
    let length = attacker.one_of(&[44, 44, 43, 108, 0, 4096]);
    send(attacker, 1, &packet, length);
}

/// Requests of any kind, at the ends of the disk and beyond.
fn requests(attacker: &mut Attacker) {
    attacker.fresh();
    let sectors = u64::from(attacker.device.read(CONFIG)) | u64::from(attacker.device.read(CONFIG + 4)) << 32;
    for request in 0..SIZE / 4 {
        let sector = attacker.one_of(&[0, 1, sectors.wrapping_sub(1), sectors, sectors + 1, u64::MAX, u64::MAX - 7]);
        let kind = attacker.one_of(&[0_u32, 0, 1, 1, 4, 8, 11, 13, 14, u32::MAX]);
        let mut header = [0; 16];
        header[..4].copy_from_slice(&kind.to_le_bytes());
        header[8..].copy_from_slice(&sector.to_le_bytes());
        let at = 16 * usize::from(request);
        attacker.arena.write(TEXT, at, &header);
        let (first, address) = (4 * request, attacker.arena.address(TEXT) + at as u64);
        let length = attacker.one_of(&[16, 16, 16, 15, 17, 0]);
        attacker.describe(DESCRIPTORS, first, Descriptor { address, length, flags: NEXT, next: first + 1 });
        let (data, last) = (attacker.buffer(), attacker.buffer());
        let flags = NEXT | attacker.one_of(&[0, WRITE, WRITE]);
        let length = attacker.one_of(&[512, 512, 4096, 511, 513, 0, 1024]);
        attacker.describe(DESCRIPTORS, first + 1, Descriptor { address: data, length, flags, next: first + 2 });
        let flags = attacker.one_of(&[WRITE, WRITE, WRITE, 0]);
        let length = attacker.one_of(&[1, 1, 0, 2]);
        attacker.describe(DESCRIPTORS, first + 2, Descriptor { address: last, length, flags, next: 0 });
    }
    attacker.offer(&(0..SIZE / 4).map(|request| 4 * request).collect::<Vec<_>>(), SIZE / 4);
    attacker.strike(0);
}
