//! Why there is no attack.

use std::io;

/// Why there is no attack.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttackError {
    #[error("only a guest's first process attacks: anywhere else these would be devices that are needed")]
    NoGuest,
    #[error("cannot take {device} from its driver: {source}")]
    Take { device: String, source: io::Error },
    #[error("cannot map {what}: {why}")]
    Map { what: String, why: String },
    #[error("the kernel does not tell where memory is: {0}")]
    Addresses(io::Error),
    #[error("there is no virtio device")]
    NoDevice,
}
