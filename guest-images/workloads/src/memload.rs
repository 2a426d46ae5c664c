//! Copies a buffer of `buffer_mb` without end. Stamps tell the copies apart: they are written into the source before a
//! copy, and looked for in the copy afterwards. A missing stamp ends the VM. One operation is one copy, and its time is
//! recorded.

use crate::params::Params;
use alloc::vec;
use stile_rt::abi::{exit, milestone};
use stile_rt::{Boot, Cpu, clock, doorbell, heap};

/// Distance of two stamps (units: bytes).
const STRIDE: usize = 64 << 10;
/// Bytes of a stamp.
const STAMP: usize = size_of::<u64>();

/// vCPU 0 copies. Other vCPUs have no work.
pub fn main(cpu: Cpu) -> u32 {
    if cpu.index() != 0 {
        return exit::OK;
    }
    let params = Params::of(cpu);
    heap::init(Boot::page());
    let bytes = (params.number("buffer_mb", 16) as usize) << 20;
    let (mut from, mut to) = (vec![1u8; bytes], vec![2u8; bytes]);
    doorbell::progress(milestone::READY);
    for round in 0.. {
        let begun = clock::now();
        cpu.gauge().begin(begun.0);
        stamp(&mut from, round);
        to.copy_from_slice(&from);
        assert!(is_stamped(&to, round), "copy {round} lacks a stamp");
        cpu.gauge().record(params.clock.ns(clock::now().since(begun)));
        cpu.gauge().add_bytes(bytes as u64);
        cpu.op_done();
    }
    exit::OK
}

/// The places of the stamps in a round. They differ from round to round until every place has had a stamp.
fn places(bytes: usize, round: u64) -> impl Iterator<Item = usize> {
    let offset = round as usize * STAMP % STRIDE;
    (offset..bytes.saturating_sub(STAMP - 1)).step_by(STRIDE)
}

fn value(place: usize, round: u64) -> [u8; STAMP] {
    (round.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ place as u64).to_le_bytes()
}

fn stamp(buffer: &mut [u8], round: u64) {
    places(buffer.len(), round).for_each(|place| buffer[place..place + STAMP].copy_from_slice(&value(place, round)));
}

fn is_stamped(buffer: &[u8], round: u64) -> bool {
    places(buffer.len(), round).all(|place| buffer[place..place + STAMP] == value(place, round))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_copy_has_the_stamps_of_its_round_and_of_no_other() {
        let mut buffer = vec![0; 3 * STRIDE];
        for round in [0, 1, 8191, 8192, 100_000] {
            stamp(&mut buffer, round);
            assert!(is_stamped(&buffer, round), "round {round}");
            assert!(!is_stamped(&buffer, round + 1), "round {round}");
        }
    }

    #[test]
    fn a_copy_that_lost_a_piece_lacks_a_stamp() {
        let mut buffer = vec![0; 3 * STRIDE];
        stamp(&mut buffer, 7);
        buffer[STRIDE..2 * STRIDE].fill(0);
        assert!(!is_stamped(&buffer, 7));
    }
}
