//! Fuzz target of the disk.

use std::fs::File;

use tempfile::NamedTempFile;

use super::*;
use crate::devices::virtio::cost::{self, Cost};
use crate::devices::virtio::fuzz::{self, PROGRAM_MAX, Program, Target};
use crate::devices::virtio::testing::*;

const SECTORS: u64 = 64;

struct Disks(NamedTempFile);

impl Target for Disks {
    type Device = BlockDevice;
    /// Eight requests, each for the whole disk at most.
    const MOST: Cost = Cost {
        descriptors: cost::descriptors(256),
        bytes: 8 * (SECTORS * SECTOR_BYTES + 64) as usize,
        allocations: 8 * 16,
        wakes: 1,
    };

    fn rig(&mut self) -> Rig<BlockDevice> {
        let disk = Disk::open(self.0.path(), false).unwrap();
        Rig::new(1 << 9, |memory, line| BlockDevice::new(disk, memory, line))
    }

    fn header(&mut self, program: &mut Program<'_>) -> Vec<u8> {
        let kind: u32 = program.pick(&[0, 1, 4, 8, 11, 13, 2, u32::MAX]);
        let sector = program.pick(&[0, 1, SECTORS - 1, SECTORS, u64::MAX, 1 << 55, 1 << 54]);
        let header = [&kind.to_le_bytes()[..], &[0; 4], &sector.to_le_bytes()].concat();
        let sectors = u32::from(program.byte());
        // A segment follows, for the two kinds of requests that have one.
        [header, sector.to_le_bytes().to_vec(), sectors.to_le_bytes().to_vec(), vec![program.byte() & 3, 0, 0, 0]]
            .concat()
    }

    fn host(&mut self, _rig: &Rig<BlockDevice>, what: u8) {
        // Another program changes the size of the file.
        let sectors = if what & 1 == 0 { SECTORS } else { SECTORS / 2 };
        File::options().write(true).open(self.0.path()).unwrap().set_len(sectors * SECTOR_BYTES).unwrap();
    }

    fn check(&mut self, rig: &mut Rig<BlockDevice>) {
        self.host(rig, 0);
        rig.put(BUFFERS, &[0; 16]);
        rig.offer(0, 0, &[(BUFFERS, 16, 0), (BUFFERS + 0x1000, 513, WRITE)]);
        rig.ring(0);
        assert_eq!((rig.used(0), rig.get(BUFFERS + 0x1000 + 512, 1)[0]), (Some((0, 513)), 0));
        // No request makes the disk longer.
        assert_eq!(self.0.as_file().metadata().unwrap().len(), SECTORS * SECTOR_BYTES);
    }
}

fn run(program: &[u8]) {
    let file = NamedTempFile::new().unwrap();
    file.as_file().set_len(SECTORS * SECTOR_BYTES).unwrap();
    fuzz::run(Disks(file), program);
}

#[test]
fn fuzz_of_block() {
    fuzz::replay(include_str!("../virtio/fuzz/block.txt"), run);
    bolero::check!().with_max_len(PROGRAM_MAX).with_test_time(fuzz::duration()).for_each(run);
}
