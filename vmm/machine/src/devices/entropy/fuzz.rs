//! Fuzz target of the source of randomness.

use super::*;
use crate::devices::virtio::cost::{self, Cost};
use crate::devices::virtio::fuzz::{self, PROGRAM_MAX, Program, Target};
use crate::devices::virtio::testing::*;

struct Sources;

impl Target for Sources {
    type Device = EntropyDevice;
    const MOST: Cost = Cost {
        descriptors: cost::descriptors(QUEUE_SIZE),
        bytes: REQUESTS_PER_TURN * BYTES_MAX,
        allocations: REQUESTS_PER_TURN * 16,
        wakes: 1,
    };

    fn rig(&mut self) -> Rig<EntropyDevice> {
        Rig::new(0, EntropyDevice::new)
    }

    fn header(&mut self, _program: &mut Program<'_>) -> Vec<u8> {
        vec![0]
    }

    fn host(&mut self, _rig: &Rig<EntropyDevice>, _what: u8) {}

    fn check(&mut self, rig: &mut Rig<EntropyDevice>) {
        rig.offer(0, 0, &[(BUFFERS, 100, WRITE)]);
        rig.ring(0);
        assert_eq!(rig.used(0), Some((0, 100)));
    }
}

fn run(program: &[u8]) {
    fuzz::run(Sources, program);
}

#[test]
fn fuzz_of_entropy() {
    fuzz::replay(include_str!("../virtio/fuzz/entropy.txt"), run);
    bolero::check!().with_max_len(PROGRAM_MAX).with_test_time(fuzz::duration()).for_each(run);
}
