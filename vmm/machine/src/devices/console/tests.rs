use std::io::Write;

use super::*;
use crate::devices::virtio::testing::*;

const RX: usize = 0;
const TX: usize = 1;

/// The text that the guest wrote.
#[derive(Clone, Default)]
struct Screen(Arc<Mutex<Vec<u8>>>);

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn rig(input: Option<OwnedFd>) -> (Rig<ConsoleDevice>, Screen) {
    let screen = Screen::default();
    let output = Box::new(screen.clone());
    (Rig::new(0, |memory, line| ConsoleDevice::new(output, input, memory, line).unwrap()), screen)
}

fn typed() -> (Rig<ConsoleDevice>, io::PipeWriter) {
    let (keys, typist) = io::pipe().unwrap();
    (rig(Some(keys.into())).0, typist)
}

impl Rig<ConsoleDevice> {
    fn post(&mut self, head: u16, length: u32) {
        self.offer(RX, head, &[(BUFFERS + 0x1000 * u64::from(head), length, WRITE)]);
        self.ring(RX);
    }

    fn received(&mut self) -> Option<Vec<u8>> {
        let (head, length) = self.used(RX)?;
        Some(self.get(BUFFERS + 0x1000 * u64::from(head), length as usize))
    }

    /// Whether the host's side has work.
    pub(super) fn is_ready(&self) -> bool {
        let fd = self.device.device().host_events().unwrap();
        let outer = Epoll::new().unwrap();
        outer.ctl(ControlOperation::Add, fd, EpollEvent::new(EventSet::IN, 0)).unwrap();
        outer.wait(0, &mut [EpollEvent::default()]).unwrap() > 0
    }
}

#[test]
fn what_the_guest_writes_comes_out_from_all_buffers_of_a_chain() {
    let (mut rig, screen) = rig(None);
    rig.put(BUFFERS, b"hello, ");
    rig.put(BUFFERS + 0x100, b"world\n");
    rig.offer(TX, 0, &[(BUFFERS, 7, 0), (BUFFERS + 0x100, 6, 0)]);
    rig.ring(TX);
    assert_eq!(*screen.0.lock(), b"hello, world\n");
    assert_eq!(rig.used(TX), Some((0, 0)));
}

#[test]
fn more_than_a_chunk_comes_out_whole() {
    let (mut rig, screen) = rig(None);
    let text: Vec<u8> = (0..3 * CHUNK + 5).map(|at| at as u8).collect();
    rig.put(BUFFERS, &text);
    rig.offer(TX, 0, &[(BUFFERS, text.len() as u32, 0)]);
    rig.ring(TX);
    assert_eq!(*screen.0.lock(), text);
}

#[test]
fn what_is_typed_reaches_the_guests_buffers_and_interrupts_it() {
    let (mut rig, mut typist) = typed();
    rig.post(0, 64);
    typist.write_all(b"ls\n").unwrap();
    rig.host();
    assert_eq!(rig.received().unwrap(), b"ls\n");
    assert_eq!(rig.bell.rung(), 1);
}

#[test]
fn a_guest_without_buffers_costs_one_chunk_and_gets_everything_later() {
    let (mut rig, mut typist) = typed();
    let text: Vec<u8> = (0..3 * CHUNK).map(|at| (at / 7) as u8).collect();
    typist.write_all(&text).unwrap();
    // The device is ready for input, and takes no more than a chunk.
    rig.ring(RX);
    rig.host();
    assert_eq!(rig.device.device().input.lock().pending.len(), CHUNK);
    assert!(!rig.is_ready());
    let mut got = Vec::new();
    let mut head = 0;
    while got.len() < text.len() {
        rig.post(head, 1000);
        head = (head + 1) % RIG_SIZE;
        rig.host();
        got.extend(std::iter::from_fn(|| rig.received()).flatten());
    }
    assert_eq!(got, text);
}

#[test]
fn the_end_of_input_is_no_end_of_the_device() {
    let (mut rig, typist) = typed();
    rig.post(0, 64);
    drop(typist);
    rig.host();
    assert!(!rig.is_ready());
    assert_eq!((rig.received(), rig.fault()), (None, None));
}

#[test]
fn a_file_is_read_to_its_end() {
    let mut file = tempfile::tempfile().unwrap();
    let text = vec![b'x'; 2 * CHUNK + 10];
    file.write_all(&text).unwrap();
    io::Seek::rewind(&mut file).unwrap();
    let (mut rig, _) = rig(Some(file.into()));
    for head in 0..12 {
        rig.post(head, 1024);
    }
    let got: Vec<u8> = std::iter::from_fn(|| rig.received()).flatten().collect();
    assert_eq!(got, text);
}

#[test]
fn a_device_that_is_off_is_not_told_of_input_until_it_is_reset() {
    let (mut rig, mut typist) = typed();
    rig.post(0, 64);
    // The fault of the other queue.
    rig.offer(TX, 0, &[(MEMORY_BYTES, 8, 0)]);
    rig.ring(TX);
    assert!(rig.fault().is_some());
    typist.write_all(b"x").unwrap();
    rig.host();
    assert!(!rig.is_ready());
    rig.reset(0);
    rig.post(0, 64);
    rig.host();
    assert_eq!(rig.received().unwrap(), b"x");
}

#[test]
fn a_receive_chain_without_room_turns_the_device_off() {
    for buffer in [(BUFFERS, 64, 0), (BUFFERS, 0, WRITE), (MEMORY_BYTES, 64, WRITE)] {
        let (mut rig, mut typist) = typed();
        rig.offer(RX, 0, &[buffer]);
        rig.ring(RX);
        typist.write_all(b"x").unwrap();
        rig.host();
        assert!(rig.fault().is_some(), "{buffer:?}");
        assert!(!rig.is_ready(), "{buffer:?}");
    }
}

#[test]
fn a_chain_of_many_megabytes_is_refused_and_not_copied() {
    let (mut rig, screen) = rig(None);
    // The same memory over and over, which costs the guest nothing.
    rig.offer(TX, 0, &[(BUFFERS, 2 << 20, 0); 8]);
    rig.ring(TX);
    assert_eq!(screen.0.lock().len(), 0);
    assert!(rig.fault().is_some_and(|fault| fault.contains("TooLarge")), "{:?}", rig.fault());
}
