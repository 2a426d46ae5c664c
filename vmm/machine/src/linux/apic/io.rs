//! The I/O APIC: 24 lines of devices, each with an entry that says which message an interrupt makes.
//!
//! Intel's data sheet 290566 ("82093AA I/O Advanced Programmable Interrupt Controller"), sections 3.1 and 3.2; for the
//! remote IRR, SDM, section "Signaling Interrupt Servicing Completion".

use super::message::{Delivery, Destination, Ipi, Message, Trigger};

/// Lines.
pub const PINS: usize = 24;
/// Offsets of its two registers in memory: the one that selects, and the window to what is selected.
const SELECT: u64 = 0;
const WINDOW: u64 = 0x10;
/// Selected: identity, version, arbitration; then two words for each line.
const ID: u8 = 0;
const VERSION: u8 = 1;
const ARBITRATION: u8 = 2;
const TABLE: u8 = 0x10;
const VERSION_VALUE: u32 = 0x11 | (PINS as u32 - 1) << 16;
const ID_BITS: u32 = 0xf << 24;

const LOGICAL: u64 = 1 << 11;
const REMOTE_IRR: u64 = 1 << 14;
const LEVEL: u64 = 1 << 15;
const MASKED: u64 = 1 << 16;
const DESTINATION_AT: u32 = 56;
/// Bits that software may set: not the delivery status, not the remote IRR, and none that is reserved.
const WRITABLE: u64 = 0xff << DESTINATION_AT | MASKED | LEVEL | 1 << 13 | 0xfff;
/// The destination of eight bits that means all.
const BROADCAST: u32 = 0xff;

/// An I/O APIC.
#[derive(Debug, Clone)]
pub struct IoApic {
    selected: u8,
    id: u32,
    entries: [u64; PINS],
    /// Lines that are asserted.
    asserted: u32,
}

impl Default for IoApic {
    fn default() -> Self {
        Self { selected: 0, id: 0, entries: [MASKED; PINS], asserted: 0 }
    }
}

impl IoApic {
    /// Sets a line. Returns the message that this makes.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn set(&mut self, pin: usize, asserted: bool) -> Option<Ipi> {
        let before = self.asserted & 1 << pin != 0;
        self.asserted = self.asserted & !(1 << pin) | u32::from(asserted) << pin;
        let is_level = self.entries[pin] & LEVEL != 0;
        if asserted && (is_level || !before) { self.fire(pin) } else { None }
    }

    /// Asserts a line for a moment. Returns the message that this makes.
    ///
    /// # Panics
    /// If there is no such line.
    pub fn pulse(&mut self, pin: usize) -> Option<Ipi> {
        let message = self.set(pin, true);
        let _ = self.set(pin, false);
        message
    }

    /// Level-triggered interrupts with this vector have ended. Returns the messages of lines that are still asserted.
    pub fn end_of_interrupt(&mut self, vector: u8) -> [Option<Ipi>; PINS] {
        std::array::from_fn(|pin| {
            let entry = &mut self.entries[pin];
            if *entry & (LEVEL | REMOTE_IRR) != LEVEL | REMOTE_IRR || *entry as u8 != vector {
                return None;
            }
            *entry &= !REMOTE_IRR;
            if self.asserted & 1 << pin != 0 { self.fire(pin) } else { None }
        })
    }

    /// Reads a register. Accesses have 32 bits; others read as zero.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        let value = match offset {
            SELECT => self.selected.into(),
            WINDOW => self.window(),
            _ => 0,
        };
        match <&mut [u8; 4]>::try_from(&mut *data) {
            Ok(word) => *word = value.to_le_bytes(),
            Err(_) => data.fill(0),
        }
    }

    /// Writes a register. Returns the message that this makes. Accesses that do not have 32 bits are ignored.
    pub fn write(&mut self, offset: u64, data: &[u8]) -> Option<Ipi> {
        let value = u32::from_le_bytes(data.try_into().ok()?);
        match (offset, self.selected) {
            (SELECT, _) => self.selected = value as u8,
            (WINDOW, ID) => self.id = value & ID_BITS,
            (WINDOW, _) => {
                let (pin, is_upper) = self.selected_pin()?;
                return self.set_half(pin, is_upper, value);
            }
            _ => {}
        }
        None
    }

    fn window(&self) -> u32 {
        match self.selected {
            ID | ARBITRATION => self.id,
            VERSION => VERSION_VALUE,
            _ => self.selected_pin().map_or(0, |(pin, is_upper)| {
                let entry = self.entries[pin];
                if is_upper { (entry >> 32) as u32 } else { entry as u32 }
            }),
        }
    }

    /// The line whose entry is selected, and whether it is the entry's upper half.
    fn selected_pin(&self) -> Option<(usize, bool)> {
        let word = usize::from(self.selected.checked_sub(TABLE)?);
        (word < 2 * PINS).then_some((word / 2, word % 2 == 1))
    }

    fn set_half(&mut self, pin: usize, is_upper: bool, value: u32) -> Option<Ipi> {
        let old = self.entries[pin];
        let value = u64::from(value);
        let written = if is_upper { old & 0xffff_ffff | value << 32 } else { old & !0xffff_ffff | value };
        let mut entry = written & WRITABLE;
        if entry & LEVEL != 0 {
            entry |= old & REMOTE_IRR;
        }
        self.entries[pin] = entry;
        // A level that was held back by the mask comes through now. An edge is lost.
        let waits = self.asserted & 1 << pin != 0 && entry & LEVEL != 0;
        if waits { self.fire(pin) } else { None }
    }

    /// The message of a line, unless it is masked or its last one has not ended.
    fn fire(&mut self, pin: usize) -> Option<Ipi> {
        let entry = self.entries[pin];
        if entry & (MASKED | REMOTE_IRR) != 0 {
            return None;
        }
        let trigger = if entry & LEVEL != 0 { Trigger::Level } else { Trigger::Edge };
        let delivery = Delivery::of(entry >> 8);
        if trigger == Trigger::Level && delivery.has_vector() {
            self.entries[pin] |= REMOTE_IRR;
        }
        let to = match (entry & LOGICAL != 0, (entry >> DESTINATION_AT) as u32) {
            (false, BROADCAST) => Destination::All,
            (logical, destination) => Destination::of_x2apic(logical, destination),
        };
        Some(Ipi { to, message: Message { delivery, vector: entry as u8, trigger } })
    }
}
