//! What APICs send each other: an interrupt message, and the local APICs that it is for.
//!
//! SDM, sections "Interrupt Command Register (ICR)", "Determining IPI Destination" and "Delivering IPIs in x2APIC
//! Mode".

/// Delivery modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The vector, to each local APIC of the destination.
    Fixed,
    /// The vector, to the one of the destination that runs at the lowest priority.
    Lowest,
    /// A system management interrupt.
    Smi,
    /// Has no meaning.
    Reserved,
    /// A non-maskable interrupt.
    Nmi,
    /// Resets the processor, which then waits for its start.
    Init,
    /// Starts a processor that waits for it, at the page that the vector names.
    Startup,
    /// The vector comes from an 8259.
    External,
}

impl Delivery {
    /// The mode with these three bits.
    pub fn of(bits: u64) -> Self {
        match bits & 7 {
            0 => Self::Fixed,
            1 => Self::Lowest,
            2 => Self::Smi,
            3 => Self::Reserved,
            4 => Self::Nmi,
            5 => Self::Init,
            6 => Self::Startup,
            _ => Self::External,
        }
    }

    /// Whether the message brings a vector of the interrupt table.
    pub fn has_vector(self) -> bool {
        matches!(self, Self::Fixed | Self::Lowest)
    }
}

/// Trigger modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The interrupt is an event.
    Edge,
    /// The interrupt is asserted until the device takes it back: its end is broadcast to I/O APICs.
    Level,
}

/// An interrupt message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message {
    /// Delivery mode.
    pub delivery: Delivery,
    /// The vector, for the modes that have one; for [`Delivery::Startup`] the number of a page.
    pub vector: u8,
    /// Trigger mode.
    pub trigger: Trigger,
}

/// The local APICs that a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destination {
    /// The one with this id.
    Physical(u32),
    /// Those in the cluster of the upper 16 bits whose bit is set in the lower 16.
    Logical(u32),
    /// All.
    All,
    /// All but the sender.
    Others,
    /// The sender.
    Itself,
}

/// Destination of a message of x2APICs to all.
const BROADCAST: u32 = u32::MAX;

/// An x2APIC's logical id: its cluster, and its bit there (SDM, section "Logical Destination Mode in x2APIC Mode").
pub fn logical_id(id: u32) -> u32 {
    id >> 4 << 16 | 1 << (id & 0xf)
}

impl Destination {
    /// The destination that an x2APIC's command names without a shorthand.
    pub fn of_x2apic(logical: bool, destination: u32) -> Self {
        match (logical, destination) {
            (_, BROADCAST) => Self::All,
            (true, destination) => Self::Logical(destination),
            (false, destination) => Self::Physical(destination),
        }
    }

    /// Whether the local APIC with this id belongs to it.
    pub fn contains(self, id: u32, sender: Option<u32>) -> bool {
        match self {
            Self::Physical(destination) => id == destination,
            Self::Logical(destination) => {
                let logical = logical_id(id);
                logical >> 16 == destination >> 16 && logical & destination & 0xffff != 0
            }
            Self::All => true,
            Self::Others => sender != Some(id),
            Self::Itself => sender == Some(id),
        }
    }
}

/// A message and its destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipi {
    /// Which local APICs get it.
    pub to: Destination,
    /// What they get.
    pub message: Message,
}
