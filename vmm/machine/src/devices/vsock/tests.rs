//! Tests of the device from both sides: a driver at the queues, and host programs at the unix sockets. This file holds
//! what the tests share.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;

use tempfile::TempDir;

use super::packet::{HEADER_BYTES, Header, STREAM, op};
use super::*;
use crate::devices::virtio::testing::*;

mod calls;
mod device;
mod ends;
mod jailed;
mod room;
mod sockets;

const RX: usize = 0;
const TX: usize = 1;
/// Addresses of the receive buffers, one for each descriptor, and of the transmit buffer.
const RECEIVE: u64 = BUFFERS;
const RECEIVE_BYTES: u32 = 4096;
const SEND: u64 = BUFFERS + 0x10_0000;
const ROOM: u32 = 1 << 20;
const GUEST_PORT: u32 = 1234;

/// A guest with its device, and the folder of its sockets.
struct Guest {
    rig: Rig<VsockDevice>,
    folder: TempDir,
    posted: u16,
    sent: u16,
}

impl Guest {
    fn new() -> Self {
        Self::with_features(0)
    }

    fn with_features(features: u64) -> Self {
        let mut guest = Self::without_buffers(features);
        guest.post(RIG_SIZE);
        guest
    }

    /// One that takes no packets yet.
    fn without_buffers(features: u64) -> Self {
        let folder = TempDir::new().unwrap();
        let socket = HostSocket::open(&folder.path().join("sock")).unwrap();
        let rig = Rig::new(features, |memory, line| VsockDevice::new(socket, memory, line).unwrap());
        Self { rig, folder, posted: 0, sent: 0 }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("sock")
    }

    /// Listens for the guest's connections to `port`.
    fn listen(&self, port: u32) -> UnixListener {
        UnixListener::bind(self.folder.path().join(format!("sock_{port}"))).unwrap()
    }

    fn post(&mut self, count: u16) {
        for _ in 0..count {
            let at = self.posted % RIG_SIZE;
            self.rig.offer(RX, at, &[(RECEIVE + 0x1000 * u64::from(at), RECEIVE_BYTES, WRITE)]);
            self.posted = self.posted.wrapping_add(1);
        }
        self.rig.ring(RX);
    }

    /// The next packet from the device. Its buffer is posted again.
    fn packet(&mut self) -> Option<(Header, Vec<u8>)> {
        let (head, length) = self.rig.used(RX)?;
        let mut bytes = self.rig.get(RECEIVE + 0x1000 * u64::from(head), length as usize);
        let data = bytes.split_off(HEADER_BYTES);
        let header = Header::parse(&bytes.try_into().unwrap());
        assert_eq!((header.src_cid, header.dst_cid, header.length as usize), (HOST_CID, GUEST_CID, data.len()));
        self.post(1);
        Some((header, data))
    }

    fn expect(&mut self, op: u16) -> (Header, Vec<u8>) {
        let (header, data) = self.packet().unwrap_or_else(|| panic!("operation {op} does not come"));
        assert_eq!(header.op, op, "{header:?}");
        (header, data)
    }

    fn nothing_comes(&mut self) {
        if let Some((header, _)) = self.packet() {
            panic!("{header:?}");
        }
    }

    fn send(&mut self, header: Header, data: &[u8]) {
        let at = self.sent % RIG_SIZE;
        self.rig.put(SEND, &header.bytes());
        self.rig.put(SEND + 0x100, data);
        let buffers = [(SEND, HEADER_BYTES as u32, 0), (SEND + 0x100, data.len() as u32, 0)];
        self.rig.offer(TX, at & !1, if data.is_empty() { &buffers[..1] } else { &buffers });
        self.rig.ring(TX);
        self.sent = self.sent.wrapping_add(2);
    }

    /// Connects to `port` of the host, where `listener` accepts.
    fn connect(&mut self, port: u32, listener: &UnixListener) -> UnixStream {
        self.send(from_guest(port, op::REQUEST), b"");
        let (stream, _) = listener.accept().unwrap();
        self.expect(op::RESPONSE);
        stream
    }

    /// A host program that has written this line, which the device has read.
    fn program(&self, says: &[u8]) -> UnixStream {
        let mut program = UnixStream::connect(self.path()).unwrap();
        program.write_all(says).unwrap();
        self.rig.host();
        program
    }

    /// A host program that has asked for port 5000 of the guest, and the packet that the guest got.
    fn called(&mut self) -> (UnixStream, Header) {
        let program = self.program(b"CONNECT 5000\n");
        let (request, _) = self.expect(op::REQUEST);
        assert_eq!(request.dst_port, 5000);
        (program, request)
    }

    /// A host program that has connected to port 5000 of the guest and was accepted; and its port.
    fn accept(&mut self) -> (UnixStream, u32) {
        let (mut program, request) = self.called();
        self.send(answer(&request, op::RESPONSE), b"");
        let expected = format!("OK {}\n", request.src_port);
        let mut line = vec![0; expected.len()];
        program.read_exact(&mut line).unwrap();
        assert_eq!(line, expected.as_bytes());
        (program, request.src_port)
    }

    fn connections(&self) -> usize {
        self.rig.device.device().connections()
    }
}

fn from_guest(port: u32, op: u16) -> Header {
    Header {
        src_cid: GUEST_CID,
        dst_cid: HOST_CID,
        src_port: GUEST_PORT,
        dst_port: port,
        kind: STREAM,
        op,
        buf_alloc: ROOM,
        ..Header::default()
    }
}

fn data(port: u32, bytes: &[u8]) -> Header {
    Header { length: bytes.len() as u32, ..from_guest(port, op::DATA) }
}

/// The guest's answer to a host program's packet.
fn answer(header: &Header, op: u16) -> Header {
    Header { src_port: header.dst_port, ..from_guest(header.src_port, op) }
}

fn ended(stream: &mut UnixStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    matches!(stream.read(&mut [0]), Ok(0))
}
