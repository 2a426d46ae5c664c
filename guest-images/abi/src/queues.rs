//! Which queues of the network device an idle doorbell serves, packed into the doorbell's 32 bits.

/// A set of the network device's queues; the value of an idle doorbell. Bit n is queue n; every value is a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Queues(u32);

impl Queues {
    /// No queue.
    pub const NONE: Self = Self(0);

    /// This set and queue `queue`, which is below 32.
    pub const fn with(self, queue: u16) -> Self {
        Self(self.0 | 1 << queue)
    }

    /// Whether the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The queues, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u16> {
        (0..u32::BITS as u16).filter(move |queue| self.0 & 1 << queue != 0)
    }

    /// The doorbell value.
    pub const fn pack(self) -> u32 {
        self.0
    }

    /// The set of a doorbell value.
    pub const fn unpack(value: u32) -> Self {
        Self(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_survives_packing_and_lists_its_queues_in_order() {
        let set = Queues::NONE.with(31).with(0).with(1).with(1);
        assert_eq!(Queues::unpack(set.pack()), set);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 31]);
        assert!(!set.is_empty());
    }

    #[test]
    fn the_value_of_a_plain_idle_is_no_queue() {
        assert_eq!(Queues::NONE.pack(), 0);
        assert!(Queues::unpack(0).is_empty());
        assert_eq!(Queues::NONE.iter().next(), None);
    }
}
