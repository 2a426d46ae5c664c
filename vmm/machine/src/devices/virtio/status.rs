//! The device status byte as a state machine (virtio 1.2, sections 2.1 and 3.1.1). Pure: it takes a write and returns a
//! decision.
//!
//! Invariant: a bit is only ever added until the driver resets, and only after the bits that come before it.

use virtio_bindings::virtio_config::{
    VIRTIO_CONFIG_S_ACKNOWLEDGE, VIRTIO_CONFIG_S_DRIVER, VIRTIO_CONFIG_S_DRIVER_OK, VIRTIO_CONFIG_S_FAILED,
    VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_NEEDS_RESET,
};

const ACKNOWLEDGE: u8 = VIRTIO_CONFIG_S_ACKNOWLEDGE as u8;
const DRIVER: u8 = VIRTIO_CONFIG_S_DRIVER as u8;
const FEATURES_OK: u8 = VIRTIO_CONFIG_S_FEATURES_OK as u8;
const DRIVER_OK: u8 = VIRTIO_CONFIG_S_DRIVER_OK as u8;
const FAILED: u8 = VIRTIO_CONFIG_S_FAILED as u8;
/// Set by the device. A driver that writes it back asks for nothing.
pub(super) const NEEDS_RESET: u8 = VIRTIO_CONFIG_S_NEEDS_RESET as u8;

/// The driver's bits of the device status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Status(u8);

/// What the transport has to do after a status write. It then commits the write with [`Status::set`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Reset the device.
    Reset,
    /// Remember the new bits, and nothing else.
    Note,
    /// Accept the features, or leave FEATURES_OK clear.
    CheckFeatures,
    /// Start the device: the driver is ready.
    Start,
    /// Stop the device: the driver has given up.
    GiveUp,
    /// Report a fault: a step was skipped or taken back.
    Breach,
}

impl Status {
    /// Decides on a write of `written`. Does not carry it out.
    pub(super) fn step(self, written: u8) -> Step {
        let written = written & !NEEDS_RESET;
        if written == 0 {
            return Step::Reset;
        }
        if written & FAILED != 0 {
            return Step::GiveUp;
        }
        let added = written & !self.0;
        if self.0 & !written != 0 || added & !(ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK) != 0 {
            return Step::Breach;
        }
        // ACKNOWLEDGE and DRIVER may come in one write; FEATURES_OK and DRIVER_OK may not, since the driver has to
        // read the first back before it sets the second.
        match added {
            0 => Step::Note,
            ACKNOWLEDGE => Step::Note,
            _ if added == ACKNOWLEDGE | DRIVER => Step::Note,
            DRIVER if self.has(ACKNOWLEDGE) => Step::Note,
            FEATURES_OK if self.has(DRIVER) => Step::CheckFeatures,
            DRIVER_OK if self.has(FEATURES_OK) => Step::Start,
            _ => Step::Breach,
        }
    }

    /// Commits a write.
    pub(super) fn set(&mut self, written: u8) {
        self.0 = written & !NEEDS_RESET;
    }

    /// The status byte, without the device's own bit.
    pub(super) fn bits(self) -> u8 {
        self.0
    }

    /// Whether the driver may choose features now.
    pub(super) fn features_open(self) -> bool {
        self.has(DRIVER) && !self.has(FEATURES_OK) && !self.has(FAILED)
    }

    /// Whether the driver may set up queues now.
    pub(super) fn queues_open(self) -> bool {
        self.has(FEATURES_OK) && !self.has(DRIVER_OK) && !self.has(FAILED)
    }

    /// Whether the device works.
    pub(super) fn live(self) -> bool {
        self.has(DRIVER_OK) && !self.has(FAILED)
    }

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(writes: &[u8]) -> Vec<Step> {
        let mut status = Status::default();
        writes
            .iter()
            .map(|&write| {
                let step = status.step(write);
                status.set(write);
                step
            })
            .collect()
    }

    #[test]
    fn the_prescribed_order_starts_the_device() {
        assert_eq!(walk(&[1, 3, 11, 15]), [Step::Note, Step::Note, Step::CheckFeatures, Step::Start]);
        assert_eq!(walk(&[3, 11, 15]), [Step::Note, Step::CheckFeatures, Step::Start]);
    }

    #[test]
    fn a_skipped_step_is_a_breach() {
        for first in [2, 4, 8, 9, 11, 15, 16, 32] {
            assert_eq!(Status(0).step(first), Step::Breach, "{first:#x}");
        }
        assert_eq!(Status(3).step(15), Step::Breach);
        assert_eq!(Status(3).step(7), Step::Breach);
    }

    #[test]
    fn a_bit_taken_back_is_a_breach() {
        assert_eq!(Status(15).step(11), Step::Breach);
        assert_eq!(Status(11).step(3), Step::Breach);
    }

    #[test]
    fn zero_resets_and_failed_gives_up_from_anywhere() {
        for status in [0, 1, 3, 11, 15, 128] {
            assert_eq!(Status(status).step(0), Step::Reset);
            assert_eq!(Status(status).step(status | 128), Step::GiveUp);
        }
    }

    #[test]
    fn the_devices_own_bit_is_ignored_when_written_back() {
        assert_eq!(Status(15).step(15 | NEEDS_RESET), Step::Note);
        assert_eq!(Status(15).step(NEEDS_RESET), Step::Reset);
    }
}
