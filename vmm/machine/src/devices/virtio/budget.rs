//! What the work of one turn may cost. The turn ends with the chain that uses the budget up.

/// Descriptors read in a turn. Each takes some ten nanoseconds, and a chain has at most as many as its queue.
pub(super) const DESCRIPTORS: usize = 2048;
/// Bytes that are offered to be read or written in a turn (units: bytes): about a millisecond of copying.
const BYTES: usize = 4 << 20;

/// What is left of a turn's budget.
#[derive(Debug)]
pub(crate) struct Budget {
    descriptors: usize,
    bytes: usize,
}

impl Budget {
    /// The budget of a turn.
    pub(crate) fn of_turn() -> Self {
        Self { descriptors: DESCRIPTORS, bytes: BYTES }
    }

    /// Counts a chain.
    pub(crate) fn spend(&mut self, descriptors: usize, bytes: usize) {
        self.descriptors = self.descriptors.saturating_sub(descriptors);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Whether the turn may have taken long: a sixteenth of the budget is used up.
    pub(crate) fn is_much_used(&self) -> bool {
        self.descriptors <= DESCRIPTORS - DESCRIPTORS / 16 || self.bytes <= BYTES - BYTES / 16
    }

    /// Whether the turn has to end.
    pub(crate) fn is_spent(&self) -> bool {
        self.descriptors == 0 || self.bytes == 0
    }
}
