//! The reports that suites come from.

/// A report in which a suite's figures were given first.
#[derive(Debug)]
pub struct Source {
    /// Its place when the suites of the reports are run and shown, from 1.
    pub order: u32,
    /// Author, title and time.
    pub citation: &'static str,
    /// What it claims. The table of a report holds our figures against the source's.
    pub claims: Claims,
}

/// What a source claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    /// How a desktop feels beside loads depends on what a yield does.
    Desktop,
    /// Two bugs of a yield cost a chat server much of its throughput.
    ChatRooms,
    /// Lateral steal and adaptive spinning make a real-time kernel's locks fast.
    Locks,
    /// A new scheduler has a higher peak throughput with a file server's clients, but errors and late starts with many.
    FileServer,
    /// A slot that remembers its last owner is faster than a global list.
    Slots,
}
