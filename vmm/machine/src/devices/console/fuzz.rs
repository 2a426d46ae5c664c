//! Fuzz target of the console.

use std::io::{PipeWriter, Write};

use super::*;
use crate::devices::virtio::cost::{self, Cost};
use crate::devices::virtio::fuzz::{self, PROGRAM_MAX, Program, Target};
use crate::devices::virtio::testing::*;

/// Most bytes in the pipe at a time: fewer than it holds, so that typing never waits.
const TYPED_MAX: usize = 32 << 10;

struct Consoles {
    typist: Option<PipeWriter>,
    typed: usize,
}

impl Target for Consoles {
    type Device = ConsoleDevice;
    const MOST: Cost = Cost {
        descriptors: cost::descriptors(QUEUE_SIZE),
        bytes: CHAINS_PER_TURN * BYTES_MAX,
        allocations: CHAINS_PER_TURN * 16,
        wakes: 2,
    };

    fn rig(&mut self) -> Rig<ConsoleDevice> {
        let (keys, typist) = io::pipe().unwrap();
        self.typist = Some(typist);
        let output = Box::new(io::sink());
        Rig::new(0, |memory, line| ConsoleDevice::new(output, Some(keys.into()), memory, line).unwrap())
    }

    fn header(&mut self, program: &mut Program<'_>) -> Vec<u8> {
        vec![program.byte()]
    }

    fn host(&mut self, rig: &Rig<ConsoleDevice>, what: u8) {
        let bytes = usize::from(what) * 64;
        if what == 255 {
            self.typist = None;
        } else if let Some(typist) = self.typist.as_mut().filter(|_| self.typed + bytes <= TYPED_MAX) {
            typist.write_all(&vec![what; bytes]).unwrap();
            self.typed += bytes;
        }
        rig.host();
        assert!(rig.device.device().input.lock().pending.len() <= CHUNK);
    }

    fn check(&mut self, rig: &mut Rig<ConsoleDevice>) {
        rig.put(BUFFERS, b"still here");
        rig.offer(1, 0, &[(BUFFERS, 10, 0)]);
        rig.ring(1);
        assert_eq!(rig.used(1), Some((0, 0)));
        // Whether the device is off or not, it is not told over and over.
        rig.host();
        assert!(!rig.is_ready());
    }
}

fn run(program: &[u8]) {
    fuzz::run(Consoles { typist: None, typed: 0 }, program);
}

#[test]
fn fuzz_of_console() {
    fuzz::replay(include_str!("../virtio/fuzz/console.txt"), run);
    bolero::check!().with_max_len(PROGRAM_MAX).with_test_time(fuzz::duration()).for_each(run);
}
