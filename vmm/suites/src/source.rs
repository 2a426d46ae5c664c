//! The published reports that suites repeat.

/// A published report whose measurements a suite repeats.
#[derive(Debug)]
pub struct Source {
    /// Its place in the order in which these suites are run and shown, from 1.
    pub order: u32,
    /// Author, title and time.
    pub citation: &'static str,
    /// Its claim. The table of a report compares stile's figures with the source's.
    pub claims: Claims,
}

/// The claim of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    /// What a yield does decides how a desktop feels beside loads.
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
