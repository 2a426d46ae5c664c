//! Resets of the device and stops of its queues while there is work in them. With several vCPUs one resets what another
//! one works with.

use super::attacker::Attacker;
use super::chains;
use super::device::{Device, QUEUE_NOTIFY, QUEUE_READY, QUEUE_SEL, STATUS};
use super::queue::{RECEIVE, TRANSMIT};

/// Writes in a round after the work has begun.
const ROUND: u64 = 16;

/// Resets under load.
pub(super) fn resets(attacker: &mut Attacker, device: Device) {
    chains::giants(attacker, device);
    for _ in 0..ROUND {
        let queue = u32::from(attacker.random.one_of(&[RECEIVE, TRANSMIT]));
        match attacker.random.below(4) {
            0 => device.write(STATUS, 0),
            1 => {
                device.write(QUEUE_SEL, queue);
                device.write(QUEUE_READY, 0);
            }
            _ => device.write(QUEUE_NOTIFY, queue),
        }
    }
    attacker.made(ROUND);
}
