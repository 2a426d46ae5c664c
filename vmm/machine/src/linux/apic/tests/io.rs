//! Intel 82093AA data sheet, sections 3.1 "Memory Mapped Registers for Accessing IOAPIC Registers" and 3.2 "IOAPIC
//! Registers"; SDM, section "Signaling Interrupt Servicing Completion".

use super::super::io::{IoApic, PINS};
use super::super::{Delivery, Destination, Ipi, Message, Trigger};

const LEVEL: u32 = 1 << 15;
const MASKED: u32 = 1 << 16;
const LOGICAL: u32 = 1 << 11;
const REMOTE_IRR: u32 = 1 << 14;

fn put(io: &mut IoApic, register: u8, value: u32) -> Option<Ipi> {
    assert_eq!(io.write(0, &u32::from(register).to_le_bytes()), None);
    io.write(0x10, &value.to_le_bytes())
}

fn get(io: &mut IoApic, register: u8) -> u32 {
    assert_eq!(io.write(0, &u32::from(register).to_le_bytes()), None);
    let mut data = [0; 4];
    io.read(0x10, &mut data);
    u32::from_le_bytes(data)
}

/// An I/O APIC whose line 5 has this lower half of an entry, and this destination.
fn with_entry(low: u32, destination: u8) -> IoApic {
    let mut io = IoApic::default();
    assert_eq!(put(&mut io, 0x1b, u32::from(destination) << 24), None);
    assert_eq!(put(&mut io, 0x1a, low), None);
    io
}

fn message(to: Destination, vector: u8, trigger: Trigger) -> Option<Ipi> {
    Some(Ipi { to, message: Message { delivery: Delivery::Fixed, vector, trigger } })
}

fn ended(io: &mut IoApic, vector: u8) -> Vec<Ipi> {
    io.end_of_interrupt(vector).into_iter().flatten().collect()
}

#[test]
fn it_has_24_masked_lines_at_first() {
    let mut io = IoApic::default();
    assert_eq!(get(&mut io, 1), 0x17_0011);
    for pin in 0..PINS as u8 {
        assert_eq!((get(&mut io, 0x10 + 2 * pin), get(&mut io, 0x11 + 2 * pin)), (MASKED, 0));
        assert_eq!(io.pulse(pin.into()), None);
    }
    assert_eq!(put(&mut io, 0, 0xff00_0000), None);
    assert_eq!((get(&mut io, 0), get(&mut io, 2)), (0xf00_0000, 0xf00_0000));
    assert_eq!((get(&mut io, 3), get(&mut io, 0x40), get(&mut io, 0xff)), (0, 0, 0));
}

#[test]
fn read_only_bits_of_an_entry_cannot_be_written() {
    let mut io = IoApic::default();
    assert_eq!(put(&mut io, 0x10, u32::MAX), None);
    assert_eq!(get(&mut io, 0x10), 0x1_afff);
    assert_eq!(put(&mut io, 0x11, u32::MAX), None);
    assert_eq!(get(&mut io, 0x11), 0xff00_0000);
}

#[test]
fn accesses_of_other_widths_or_to_other_offsets_do_nothing() {
    let mut io = with_entry(0x41, 0);
    for data in [&[0xff][..], &[0xff; 2], &[0xff; 8], &[]] {
        assert_eq!(io.write(0x10, data), None);
        let mut read = data.to_vec();
        io.read(0x10, &mut read);
        assert!(read.iter().all(|byte| *byte == 0));
    }
    assert_eq!(io.write(0x20, &[0xff; 4]), None);
    assert_eq!(get(&mut io, 0x1a), 0x41);
}

#[test]
fn an_edge_makes_a_message_and_a_line_that_stays_up_makes_no_other() {
    let mut io = with_entry(0x41, 3);
    let expected = message(Destination::Physical(3), 0x41, Trigger::Edge);
    assert_eq!(io.set(5, true), expected);
    assert_eq!(io.set(5, true), None);
    assert_eq!(io.set(5, false), None);
    assert_eq!(io.pulse(5), expected);
    assert_eq!(get(&mut io, 0x1a), 0x41, "no remote IRR");
    assert_eq!(ended(&mut io, 0x41), []);
}

#[test]
fn entries_name_the_destination() {
    let cases = [
        (0, 3, Destination::Physical(3)),
        (0, 0xff, Destination::All),
        (LOGICAL, 3, Destination::Logical(3)),
        (LOGICAL, 0xff, Destination::Logical(0xff)),
    ];
    for (mode, destination, to) in cases {
        let mut io = with_entry(0x41 | mode, destination);
        assert_eq!(io.pulse(5), message(to, 0x41, Trigger::Edge));
    }
    let mut io = with_entry(0x141, 1);
    assert_eq!(io.pulse(5).map(|ipi| ipi.message.delivery), Some(Delivery::Lowest));
}

#[test]
fn a_masked_edge_is_lost_and_a_masked_level_waits() {
    let mut io = with_entry(0x41 | MASKED, 0);
    assert_eq!((io.set(5, true), put(&mut io, 0x1a, 0x41)), (None, None));
    let mut io = with_entry(0x41 | MASKED | LEVEL, 0);
    assert_eq!(io.set(5, true), None);
    assert_eq!(put(&mut io, 0x1a, 0x41 | LEVEL), message(Destination::Physical(0), 0x41, Trigger::Level));
}

#[test]
fn a_level_makes_one_message_until_its_end_and_another_if_it_is_still_there() {
    let mut io = with_entry(0x41 | LEVEL, 0);
    let expected = message(Destination::Physical(0), 0x41, Trigger::Level);
    assert_eq!(io.set(5, true), expected);
    assert_eq!(get(&mut io, 0x1a) & REMOTE_IRR, REMOTE_IRR);
    assert_eq!((io.set(5, false), io.set(5, true)), (None, None), "its first one has not ended");
    assert_eq!(ended(&mut io, 0x42), [], "another vector");
    assert_eq!(ended(&mut io, 0x41), expected.map(|ipi| vec![ipi]).unwrap());
    assert_eq!(io.set(5, false), None);
    assert_eq!(ended(&mut io, 0x41), []);
    assert_eq!(get(&mut io, 0x1a) & REMOTE_IRR, 0);
    assert_eq!(io.set(5, true), expected);
}

#[test]
fn lines_that_share_a_vector_end_together() {
    let mut io = with_entry(0x41 | LEVEL, 0);
    assert_eq!(put(&mut io, 0x1c, 0x41 | LEVEL), None);
    let expected = message(Destination::Physical(0), 0x41, Trigger::Level).unwrap();
    assert_eq!((io.set(5, true), io.set(6, true)), (Some(expected), Some(expected)));
    assert_eq!(ended(&mut io, 0x41), [expected; 2]);
}

#[test]
fn a_change_to_edge_and_back_forgets_a_message_that_has_not_ended() {
    // Linux ends interrupts of I/O APICs without an EOI register in this way.
    let mut io = with_entry(0x41 | LEVEL, 0);
    assert!(io.set(5, true).is_some());
    assert_eq!(put(&mut io, 0x1a, 0x41 | MASKED), None);
    assert_eq!(get(&mut io, 0x1a) & REMOTE_IRR, 0);
    assert!(put(&mut io, 0x1a, 0x41 | LEVEL).is_some());
}
