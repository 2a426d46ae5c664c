//! The mistakes that a driver can make, as one type.

use super::ChainError;

/// A breach of the virtio rules by the guest's driver. The device stops until the driver resets it.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A device-status write that skips a step of the initialisation or takes one back.
    #[error("device status {written:#04x} written while it was {current:#04x}")]
    StatusOrder {
        /// Status before the write.
        current: u8,
        /// Value written.
        written: u8,
    },
    /// A queue register was written at the wrong time: before FEATURES_OK, after DRIVER_OK, or twice.
    #[error("queue {queue} set up at the wrong time, device status {status:#04x}")]
    QueueTime {
        /// Index of the queue.
        queue: u32,
        /// Status at that time.
        status: u8,
    },
    /// Size or address of a ring is not permitted.
    #[error("queue {queue} cannot be set up")]
    QueueLayout {
        /// Index of the queue.
        queue: u32,
        /// The rule that is broken.
        #[source]
        cause: virtio_queue::Error,
    },
    /// A part of a queue lies outside of guest memory.
    #[error("queue {queue} lies outside of guest memory")]
    QueueOutside {
        /// Index of the queue.
        queue: u32,
    },
    /// The rings of a working queue contradict each other.
    #[error("queue {queue}: rings are inconsistent")]
    Ring {
        /// Index of the queue.
        queue: u16,
        /// The contradiction.
        #[source]
        cause: virtio_queue::Error,
    },
    /// A descriptor chain cannot be used.
    #[error("queue {queue}: descriptor chain {head} is malformed")]
    Chain {
        /// Index of the queue.
        queue: u16,
        /// First descriptor of the chain.
        head: u16,
        /// What is wrong with the chain.
        #[source]
        cause: ChainError,
    },
}
