//! Counts how much each side of a connection may still send. Pure.
//!
//! Either side counts what it sent. It tells the other side how much room it has, and how much of the data it has
//! passed on. All counts are modulo 2^32. A guest that counts wrong, or lies, gains nothing: it may send no more than
//! there is room for here, and gets no more than it says that it has room for.

use super::BUFFER_BYTES;

/// The counts of one connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Credit {
    /// Bytes that came from the guest.
    received: u32,
    /// Bytes of them that went on to the host program.
    forwarded: u32,
    /// The last `forwarded` that the guest was told.
    told: u32,
    /// Bytes sent to the guest.
    sent: u32,
    /// The guest's room.
    room: u32,
    /// Bytes that the guest says it has passed on.
    consumed: u32,
}

/// The guest sent more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overrun;

impl Credit {
    /// The guest has told its room and how much it has passed on.
    pub(super) fn heard(&mut self, room: u32, consumed: u32) {
        (self.room, self.consumed) = (room, consumed);
    }

    /// Bytes that may be sent to the guest.
    pub(super) fn sendable(&self) -> u32 {
        self.room.saturating_sub(self.sent.wrapping_sub(self.consumed))
    }

    /// So many bytes were sent to the guest.
    pub(super) fn sent(&mut self, bytes: u32) {
        self.sent = self.sent.wrapping_add(bytes);
    }

    /// So many bytes come from the guest.
    pub(super) fn received(&mut self, bytes: u32) -> Result<(), Overrun> {
        let waiting = self.received.wrapping_sub(self.forwarded);
        if bytes > BUFFER_BYTES - waiting {
            return Err(Overrun);
        }
        self.received = self.received.wrapping_add(bytes);
        Ok(())
    }

    /// So many bytes went on to the host program.
    pub(super) fn forwarded(&mut self, bytes: u32) {
        self.forwarded = self.forwarded.wrapping_add(bytes);
    }

    /// Whether the guest believes that less than half of our room is left, although there is more.
    pub(super) fn is_news(&self) -> bool {
        self.told != self.forwarded && self.received.wrapping_sub(self.told) > BUFFER_BYTES / 2
    }

    /// The number to tell the guest now: bytes passed on.
    pub(super) fn tell(&mut self) -> u32 {
        self.told = self.forwarded;
        self.forwarded
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_may_be_sent_before_the_guest_tells_its_room_nor_beyond_it() {
        let mut credit = Credit::default();
        assert_eq!(credit.sendable(), 0);
        credit.heard(100, 0);
        credit.sent(60);
        assert_eq!(credit.sendable(), 40);
        credit.heard(100, 50);
        assert_eq!(credit.sendable(), 90);
        credit.heard(5, 50);
        assert_eq!(credit.sendable(), 0);
    }

    #[test]
    fn a_guest_that_claims_to_have_consumed_what_was_not_sent_gets_nothing() {
        let mut credit = Credit::default();
        credit.heard(100, 1);
        assert_eq!(credit.sendable(), 0);
    }

    #[test]
    fn counts_go_on_after_they_wrap() {
        let near = u32::MAX - 10;
        let mut credit = Credit { received: near, forwarded: near, told: near, sent: near, room: 50, consumed: near };
        credit.sent(30);
        assert_eq!(credit.sendable(), 20);
        credit.received(BUFFER_BYTES).unwrap();
        assert_eq!(credit.received(1), Err(Overrun));
        credit.forwarded(BUFFER_BYTES);
        assert!(credit.is_news());
        assert_eq!(credit.tell(), near.wrapping_add(BUFFER_BYTES));
        assert!(!credit.is_news());
    }

    proptest! {
        /// Whatever comes and goes, never more than a buffer waits. A guest that keeps to what it was told is never
        /// refused, and never left without credit for good.
        #[test]
        fn a_guest_that_keeps_to_its_credit_is_never_refused(steps in prop::collection::vec((0u32..40_000, 0u32..40_000), 0..200)) {
            let mut credit = Credit::default();
            let (mut sent, mut known, mut waiting) = (0u32, 0u32, 0u32);
            for (send, forward) in steps {
                let send = send.min(BUFFER_BYTES - (sent - known));
                prop_assert_eq!(credit.received(send), Ok(()));
                sent += send;
                waiting += send;
                prop_assert!(waiting <= BUFFER_BYTES);
                let forward = forward.min(waiting);
                credit.forwarded(forward);
                waiting -= forward;
                if credit.is_news() {
                    known = credit.tell();
                }
                prop_assert!(waiting > 0 || BUFFER_BYTES - (sent - known) >= BUFFER_BYTES / 2);
            }
        }
    }
}
