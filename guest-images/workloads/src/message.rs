//! Messages of 100 bytes that cannot be mistaken for each other, and the check that each came once, complete and in
//! order. Pure.
//!
//! A message is its sender and its number, 4 bytes each, and bytes that follow from both.

use core::fmt;

/// Length of a message (units: bytes).
pub const BYTES: usize = 100;
/// Exit code of a VM in which a message was wrong.
pub const CORRUPT: u32 = 1;
/// Most senders that a receiver can tell apart.
pub const SENDERS: usize = 64;

/// A message.
pub type Message = [u8; BYTES];

/// The `number`th message of a sender, from 0.
pub fn compose(sender: u32, number: u32) -> Message {
    let mut message = [0; BYTES];
    message[..4].copy_from_slice(&sender.to_le_bytes());
    message[4..8].copy_from_slice(&number.to_le_bytes());
    let mut state = u64::from(sender) << 32 | u64::from(number);
    for byte in &mut message[8..] {
        // A linear congruential generator: its upper bits differ from one message to the next.
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        *byte = (state >> 56) as u8;
    }
    message
}

/// A message that is not the one that was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// There is no such sender.
    Sender {
        /// The sender that the message names.
        sender: u32,
    },
    /// A message is missing, or came twice, or too early.
    Number {
        /// Its sender.
        sender: u32,
        /// The number that the message names.
        number: u32,
        /// The number that was due.
        due: u32,
    },
    /// Its bytes are not those that were sent.
    Bytes {
        /// Its sender.
        sender: u32,
        /// Its number.
        number: u32,
        /// The first wrong byte.
        at: usize,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sender { sender } => write!(f, "a message of {sender}, who does not send here"),
            Self::Number { sender, number, due } => write!(f, "message {number} of {sender} came where {due} was due"),
            Self::Bytes { sender, number, at } => write!(f, "message {number} of {sender} is corrupt at byte {at}"),
        }
    }
}

/// The messages that one receiver has got so far.
#[derive(Debug)]
pub struct Check {
    /// The number due next, by sender.
    due: [u32; SENDERS],
    senders: usize,
}

impl Check {
    /// A receiver of messages from so many senders, at most [`SENDERS`].
    pub fn new(senders: u32) -> Self {
        Self { due: [0; SENDERS], senders: senders as usize }
    }

    /// Checks a message that has come.
    pub fn accept(&mut self, message: &Message) -> Result<(), Wrong> {
        let word = |at: usize| u32::from_le_bytes([message[at], message[at + 1], message[at + 2], message[at + 3]]);
        let (sender, number) = (word(0), word(4));
        let due = self.due[..self.senders].get_mut(sender as usize).ok_or(Wrong::Sender { sender })?;
        if number != *due {
            return Err(Wrong::Number { sender, number, due: *due });
        }
        let right = compose(sender, number);
        if let Some(at) = right.iter().zip(message).position(|(right, came)| right != came) {
            return Err(Wrong::Bytes { sender, number, at });
        }
        *due += 1;
        Ok(())
    }

    /// Whether each of these senders has sent so many messages, and the others none.
    pub fn is_complete(&self, is_sender: impl Fn(u32) -> bool, each: u32) -> bool {
        (0..).zip(&self.due[..self.senders]).all(|(sender, &came)| came == if is_sender(sender) { each } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_in_order_are_accepted_and_counted() {
        let mut check = Check::new(3);
        for (sender, number) in [(2, 0), (0, 0), (2, 1), (0, 1)] {
            assert_eq!(check.accept(&compose(sender, number)), Ok(()));
        }
        assert!(check.is_complete(|sender| sender != 1, 2));
        assert!(!check.is_complete(|_| true, 2), "1 has sent none");
        assert!(!check.is_complete(|sender| sender == 0, 2), "2 should not have sent");
    }

    #[test]
    fn a_message_lost_or_doubled_is_seen_at_the_next_one() {
        let mut check = Check::new(1);
        assert_eq!(check.accept(&compose(0, 1)), Err(Wrong::Number { sender: 0, number: 1, due: 0 }));
        assert_eq!(check.accept(&compose(0, 0)), Ok(()));
        assert_eq!(check.accept(&compose(0, 0)), Err(Wrong::Number { sender: 0, number: 0, due: 1 }));
        assert_eq!(check.accept(&compose(1, 0)), Err(Wrong::Sender { sender: 1 }));
    }

    #[test]
    fn any_changed_byte_is_seen() {
        for at in 0..BYTES {
            let mut message = compose(0, 0);
            message[at] ^= 0x40;
            assert!(Check::new(1).accept(&message).is_err(), "byte {at}");
        }
    }

    #[test]
    fn no_two_messages_have_the_same_bytes_behind_their_names() {
        let mut patterns: Vec<_> = (0..20).flat_map(|s| (0..100).map(move |n| compose(s, n)[8..].to_vec())).collect();
        patterns.sort();
        patterns.dedup();
        assert_eq!(patterns.len(), 2_000);
    }
}
