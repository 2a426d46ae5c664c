//! Sockets of a guest whose monitor is in the jail: a host program connects to the guest, and the guest to a host
//! program. The device is served by a worker, on its thread and with its list of system calls.
//!
//! The jail is for a whole process, and for good. So this program is started anew for the monitor's part, with the
//! folder of the sockets in an environment variable.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use stile_jail::{Jail, Kind, Place};
use virtio_bindings::virtio_mmio as reg;
use vm_memory::{Bytes, GuestAddress};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use super::*;
use crate::devices::virtio::{Attachment, Worker};

/// The variable with the folder.
const FOLDER: &str = "STILE_JAILED_SOCKETS";
/// The test that is the monitor.
const MONITOR: &str = "devices::vsock::tests::jailed::the_monitor";
/// How long either side waits for the other.
const LIMIT: Duration = Duration::from_secs(60);
/// Packets after which something is wrong.
const PACKETS: usize = 100;

/// A driver of a device that a worker serves.
struct Driver {
    attachment: Attachment,
    memory: vm_memory::GuestMemoryMmap,
    queues: Vec<TestQueue>,
    epoll: Epoll,
    sent: u16,
}

impl Driver {
    fn new(socket: HostSocket) -> Self {
        let memory = guest_memory();
        let worker =
            Worker::start("jailed", Kind::DeviceWithSockets, Arc::new(|told: &str| eprintln!("{told}"))).unwrap();
        let attachment =
            Attachment::new(&worker, "vsock", &memory, |line| Ok(VsockDevice::new(socket, memory.clone(), line)?));
        let attachment = attachment.unwrap();
        let write = |register: u32, value: u32| {
            let _ = attachment.mmio.write(register.into(), &value.to_le_bytes());
        };
        [0, 1, 3].iter().for_each(|status| write(reg::VIRTIO_MMIO_STATUS, *status));
        write(reg::VIRTIO_MMIO_DRIVER_FEATURES_SEL, 1);
        write(reg::VIRTIO_MMIO_DRIVER_FEATURES, 1);
        write(reg::VIRTIO_MMIO_STATUS, 11);
        let mut queues: Vec<_> = (0..3).map(|index| TestQueue::new(memory.clone(), index, RIG_SIZE)).collect();
        queues.iter().for_each(|queue| queue.registers().for_each(|(register, value)| write(register, value)));
        for at in 0..RIG_SIZE {
            queues[RX].describe(at, RECEIVE + 0x1000 * u64::from(at), RECEIVE_BYTES, WRITE, 0);
            queues[RX].offer(at);
        }
        write(reg::VIRTIO_MMIO_STATUS, 15);
        let epoll = Epoll::new().unwrap();
        let interrupt = attachment.interrupt.event().as_raw_fd();
        epoll.ctl(ControlOperation::Add, interrupt, EpollEvent::new(EventSet::IN, 0)).unwrap();
        Self { attachment, memory, queues, epoll, sent: 0 }
    }

    /// The next packet from the device, for which it waits.
    fn packet(&mut self) -> (Header, Vec<u8>) {
        for _ in 0..PACKETS {
            if let Some((head, length)) = self.queues[RX].used() {
                let at = RECEIVE + 0x1000 * u64::from(head);
                let mut bytes = vec![0; length as usize];
                self.memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
                self.queues[RX].offer(head as u16);
                self.attachment.queue_events[RX].write(1).unwrap();
                let data = bytes.split_off(HEADER_BYTES);
                return (Header::parse(&bytes.try_into().unwrap()), data);
            }
            let ready = self.epoll.wait(LIMIT.as_millis() as i32, &mut [EpollEvent::default()]).unwrap();
            assert_eq!(ready, 1, "the device does nothing");
            self.attachment.interrupt.event().read().unwrap();
        }
        panic!("interrupts without packets");
    }

    fn send(&mut self, header: Header, data: &[u8]) {
        let at = self.sent % RIG_SIZE;
        let place = SEND + 0x200 * u64::from(at);
        self.memory.write_slice(&header.bytes(), GuestAddress(place)).unwrap();
        self.memory.write_slice(data, GuestAddress(place + HEADER_BYTES as u64)).unwrap();
        self.queues[TX].describe(at, place, (HEADER_BYTES + data.len()) as u32, 0, 0);
        self.queues[TX].offer(at);
        self.attachment.queue_events[TX].write(1).unwrap();
        self.sent = self.sent.wrapping_add(1);
    }

    /// The next packet with this operation. Grants of room are passed over.
    fn expect(&mut self, op: u16) -> (Header, Vec<u8>) {
        for _ in 0..PACKETS {
            let (header, data) = self.packet();
            if header.op == op {
                return (header, data);
            }
            assert_eq!(header.op, op::CREDIT_UPDATE, "{header:?}");
        }
        panic!("operation {op} does not come");
    }
}

/// The monitor with its guest, if this process is to be one. The guest connects to port 81 of the host, says hello, and
/// sends back what comes to its port 5000.
#[test]
fn the_monitor() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let places = vec![Place::Sockets(folder.to_owned()), Place::Read("/proc".into())];
    let missing = Jail { places, sockets: true, ..Jail::default() }.enter().unwrap();
    eprintln!("missing: {missing:?}");
    let mut driver = Driver::new(HostSocket::open(&folder.join("sock")).unwrap());
    driver.send(from_guest(81, op::REQUEST), b"");
    driver.expect(op::RESPONSE);
    driver.send(data(81, b"hello"), b"hello");
    let (request, _) = driver.expect(op::REQUEST);
    assert_eq!(request.dst_port, 5000);
    driver.send(answer(&request, op::RESPONSE), b"");
    let (_, said) = driver.expect(op::DATA);
    driver.send(Header { length: said.len() as u32, ..answer(&request, op::DATA) }, &said);
    driver.expect(op::SHUTDOWN);
}

/// A process that is ended by its drop.
struct Monitor(Child);

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_host_program_and_a_jailed_guest_connect_to_each_other() {
    let folder = TempDir::new().unwrap();
    let listener = UnixListener::bind(folder.path().join("sock_81")).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([MONITOR, "--exact", "--nocapture", "--test-threads=1"]).env(FOLDER, folder.path());
    let mut monitor = Monitor(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let limit = Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
    let called = poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&limit)).unwrap();
    let program = (called == 1).then(|| {
        let (mut guest, _) = listener.accept().unwrap();
        guest.set_read_timeout(Some(LIMIT)).unwrap();
        let mut hello = [0; 5];
        guest.read_exact(&mut hello).unwrap();
        // The guest has spoken, so its socket is there.
        let mut program = UnixStream::connect(folder.path().join("sock")).unwrap();
        program.set_read_timeout(Some(LIMIT)).unwrap();
        program.write_all(b"CONNECT 5000\nping").unwrap();
        let mut answer = Vec::new();
        let mut byte = [0];
        while !answer.ends_with(b"ping") && program.read(&mut byte).unwrap_or(0) == 1 {
            answer.extend(byte);
        }
        (hello, answer)
    });
    if called != 1 {
        let _ = monitor.0.kill();
    }
    let mut told = String::new();
    monitor.0.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    let status = monitor.0.wait().unwrap();
    assert!(status.success(), "{status}: {told}");
    let (hello, answer) = program.unwrap_or_else(|| panic!("the guest does not connect: {told}"));
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert_eq!(&hello, b"hello");
    assert!(answer.starts_with("OK ") && answer.ends_with("\nping"), "{answer:?}");
}
