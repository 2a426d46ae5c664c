//! Fuzzing of devices. A program of bytes drives a device from the driver's side and from the host's, mostly wrongly.
//! Whatever the program does, the device must not panic, must come to rest, and must work again after a reset. No turn
//! may cost more than the device [states](Target::MOST).
//!
//! A target is an ordinary test (`fuzz_of_...`) which replays a corpus and then runs random programs for as long as
//! `STILE_FUZZ_SECONDS` says; `scripts/fuzz` runs them all. The corpus (`fuzz/NAME.txt`) has a program a line, in
//! hexadecimal digits; a program that found something goes there, for good.

use std::time::Duration;

use super::Device;
use super::cost::{self, Cost};
use super::testing::*;

/// Longest program (units: bytes). A request takes a dozen bytes, so a program can make many steps.
pub(crate) const PROGRAM_MAX: usize = 512;

/// What a fuzz target adds to the rules that all devices share.
pub(crate) trait Target {
    /// The device.
    type Device: Device;
    /// The most that a turn may cost, and the writing of a register with the turn that it begins.
    const MOST: Cost;
    /// A fresh device, ready to work.
    fn rig(&mut self) -> Rig<Self::Device>;
    /// A request's header that the device is likely to understand.
    fn header(&mut self, program: &mut Program<'_>) -> Vec<u8>;
    /// Does something at the host's side.
    fn host(&mut self, rig: &Rig<Self::Device>, what: u8);
    /// Panics if the device does not work. The device has been reset and set up again before.
    fn check(&mut self, rig: &mut Rig<Self::Device>);
}

/// How long a target runs: as long as the environment says, or briefly to see that the target works.
pub(crate) fn duration() -> Duration {
    match std::env::var("STILE_FUZZ_SECONDS") {
        Ok(seconds) => Duration::from_secs_f64(seconds.parse().expect("STILE_FUZZ_SECONDS is a number of seconds")),
        Err(_) => Duration::from_millis(300),
    }
}

/// Runs the programs of a corpus.
pub(crate) fn replay(corpus: &str, mut run: impl FnMut(&[u8])) {
    let lines = corpus.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.for_each(|line| run(&from_hex(line)));
}

fn from_hex(line: &str) -> Vec<u8> {
    let digits: Vec<char> = line.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16);
    digits.chunks(2).map(|pair| byte(pair).expect("a corpus has hexadecimal digits")).collect()
}

/// Runs one program against a fresh device. Names the program if that panics.
pub(crate) fn run<T: Target>(mut target: T, program: &[u8]) {
    let teller = Teller(program);
    let mut rig = target.rig();
    let mut program = Program(program);
    cost::limit(Some(T::MOST));
    while let Some(step) = program.next() {
        self::step(&mut target, &mut rig, step, &mut program);
    }
    cost::limit(None);
    rig.reset(0);
    target.check(&mut rig);
    drop(teller);
}

/// Prints the program in the form of the corpus if the thread panics.
struct Teller<'a>(&'a [u8]);

impl Drop for Teller<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let hex: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
            eprintln!("for the corpus: {hex}");
        }
    }
}

/// The rest of a program. After its end come zeros.
pub(crate) struct Program<'a>(&'a [u8]);

impl Program<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().unwrap_or(0)
    }

    pub(crate) fn pick<V: Copy>(&mut self, from: &[V]) -> V {
        from[usize::from(self.byte()) % from.len()]
    }

    fn below(&mut self, end: u16) -> u16 {
        u16::from(self.byte()) % end
    }

    /// An address: mostly that of a buffer, sometimes one at which things go wrong.
    fn address(&mut self) -> u64 {
        let near = u64::from(self.byte());
        let base = [
            BUFFERS,
            BUFFERS,
            BUFFERS + 0x1000,
            BUFFERS + 0x1_0000,
            0,
            MEMORY_BYTES - 256,
            u64::MAX - 255,
            // Rings that change while they are in use.
            0x1_0000,
            0x1_4000,
            0x2_8000,
        ];
        self.pick(&base) + near
    }

    fn length(&mut self) -> u32 {
        let near = u32::from(self.byte());
        self.pick(&[0, 0, 16, 44, 512, 4096, 65536, 1 << 20, u32::MAX - 255]) + near
    }
}

/// One step of a program.
fn step<T: Target>(target: &mut T, rig: &mut Rig<T::Device>, step: u8, program: &mut Program<'_>) {
    let queue = usize::from(program.byte()) % rig.queues.len();
    match step % 16 {
        0 | 1 => {
            let (at, next) = (program.below(RIG_SIZE), program.below(RIG_SIZE + 2));
            let (address, length, flags) = (program.address(), program.length(), u16::from(program.byte() % 8));
            rig.queues[queue].describe(at, address, length, flags, next);
        }
        2 => {
            let head = program.below(RIG_SIZE + 2);
            rig.queues[queue].offer(head);
        }
        3 => rig.ring(queue),
        4 => {
            let claimed = u16::from_le_bytes([program.byte(), program.byte()]);
            rig.queues[queue].claim_offered(claimed);
        }
        5 => {
            let (register, value) = (u32::from(program.byte()) * 4, program.length());
            write32(&rig.device, register, value);
        }
        6 => {
            let mut value = [0; 8];
            let (offset, width) = (u64::from(program.byte()) * 2, program.pick(&[1, 2, 4, 8]));
            rig.device.read(offset, &mut value[..width]);
        }
        7 => {
            let own = rig.device.device().features();
            rig.reset(program.pick(&[0, EVENT_IDX, own, own | EVENT_IDX]));
        }
        8 | 9 => {
            target.host(rig, program.byte());
            rig.host();
        }
        10 => {
            let (at, length) = (program.address(), usize::from(program.byte() % 64));
            let bytes: Vec<u8> = (0..length).map(|_| program.byte()).collect();
            if at.checked_add(64).is_some_and(|end| end <= MEMORY_BYTES) {
                rig.put(at, &bytes);
            }
        }
        _ => {
            let header = target.header(program);
            request(rig, queue, &header, program);
        }
    }
}

/// Offers a whole chain: a header, then buffers to be read, then buffers to be written.
fn request<D: Device>(rig: &mut Rig<D>, queue: usize, header: &[u8], program: &mut Program<'_>) {
    rig.put(BUFFERS, header);
    let head = program.below(RIG_SIZE / 2);
    let shape = program.byte();
    let mut buffers = Vec::new();
    if shape & 1 == 0 {
        buffers.push((BUFFERS, header.len() as u32, 0));
    }
    let direction = |write: bool| if write { WRITE } else { 0 };
    let (middle, more) = (shape & 2 != 0, shape & 4 != 0);
    buffers.extend(middle.then(|| (BUFFERS + 0x1000, program.length() & 0xffff, direction(shape & 8 != 0))));
    buffers.extend(more.then(|| (program.address(), program.length(), direction(shape & 16 != 0))));
    buffers.push((BUFFERS + 0x8000, program.pick(&[1, 1, 20, 512, 4096]), direction(shape & 32 == 0)));
    rig.offer(queue, head, &buffers);
    if shape & 64 == 0 {
        rig.ring(queue);
    }
}
