//! The local vector table: which interrupt a source inside the local APIC makes.
//!
//! SDM, section "Local Vector Table".

use super::message::Delivery;
use super::timer::Mode;

/// The sources, in the order of their registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The timer.
    Timer,
    /// The thermal sensor.
    Thermal,
    /// Performance counters.
    Counters,
    /// Input 0.
    Line0,
    /// Input 1.
    Line1,
    /// Errors of the local APIC itself.
    Error,
}

/// Number of sources.
pub const SOURCES: usize = 6;

/// The entry is masked.
pub const MASKED: u32 = 1 << 16;
/// Delivery mode NMI.
pub const NMI: u32 = 4 << 8;
/// Delivery mode ExtINT.
pub const EXTERNAL: u32 = 7 << 8;

const VECTOR: u32 = 0xff;
const DELIVERY_AT: u32 = 8;
const DELIVERY: u32 = 7 << DELIVERY_AT;
/// Delivery status and remote IRR, which are read-only.
const STATUS: u32 = 1 << 12;
const REMOTE_IRR: u32 = 1 << 14;
const POLARITY: u32 = 1 << 13;
const LEVEL: u32 = 1 << 15;
const MODE_AT: u32 = 17;
const MODE: u32 = 3 << MODE_AT;

impl Source {
    /// All of them.
    pub const ALL: [Self; SOURCES] =
        [Self::Timer, Self::Thermal, Self::Counters, Self::Line0, Self::Line1, Self::Error];

    /// Bits that software may set, and those that it may write and does not change.
    fn bits(self) -> (u32, u32) {
        let common = VECTOR | MASKED;
        match self {
            Self::Timer => (common | MODE, STATUS),
            Self::Error => (common, STATUS),
            Self::Thermal | Self::Counters => (common | DELIVERY, STATUS),
            Self::Line0 | Self::Line1 => (common | DELIVERY | POLARITY | LEVEL, STATUS | REMOTE_IRR),
        }
    }

    /// The entry that a write of `value` makes; `None` if the write is not allowed.
    pub fn entry(self, value: u64) -> Option<u32> {
        let (kept, ignored) = self.bits();
        let value = u32::try_from(value).ok().filter(|value| value & !(kept | ignored) == 0)?;
        if self == Self::Timer {
            mode(value)?;
        }
        Some(value & kept)
    }
}

/// The timer's mode in its entry; `None` for the reserved one.
pub fn mode(entry: u32) -> Option<Mode> {
    match entry >> MODE_AT & 3 {
        0 => Some(Mode::OneShot),
        1 => Some(Mode::Periodic),
        2 => Some(Mode::TscDeadline),
        _ => None,
    }
}

/// The vector of an entry.
pub fn vector(entry: u32) -> u8 {
    (entry & VECTOR) as u8
}

/// The delivery mode of an entry.
pub fn delivery(entry: u32) -> Delivery {
    Delivery::of(u64::from(entry >> DELIVERY_AT))
}
