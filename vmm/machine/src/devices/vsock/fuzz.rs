//! Fuzz target of the sockets.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use tempfile::TempDir;

use super::packet::{Header, op};
use super::table::CONNECTIONS_MAX;
use super::*;
use crate::devices::virtio::cost::{self, Cost};
use crate::devices::virtio::fuzz::{self, PROGRAM_MAX, Program, Target};
use crate::devices::virtio::testing::*;

/// Ports of the guest, and ports on which host programs listen.
const GUEST_PORTS: [u32; 4] = [0, 1, 5000, u32::MAX];
const HOST_PORTS: [u32; 6] = [80, 80, 81, u32::MAX, 1 << 30, (1 << 30) + 1];

struct Sockets {
    folder: TempDir,
    listener: UnixListener,
    programs: Vec<UnixStream>,
}

impl Sockets {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let listener = UnixListener::bind(folder.path().join("sock_80")).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { folder, listener, programs: Vec::new() }
    }

    fn add(&mut self, program: UnixStream) {
        program.set_nonblocking(true).unwrap();
        self.programs.push(program);
    }
}

impl Target for Sockets {
    type Device = VsockDevice;
    /// 32 packets, of 64 KiB at most.
    const MOST: Cost =
        Cost { descriptors: cost::descriptors(128), bytes: 32 * ((64 << 10) + 44), allocations: 32 * 16, wakes: 2 };

    fn rig(&mut self) -> Rig<VsockDevice> {
        let socket = HostSocket::open(&self.folder.path().join("sock")).unwrap();
        Rig::new(0, |memory, line| VsockDevice::new(socket, memory, line).unwrap())
    }

    fn header(&mut self, program: &mut Program<'_>) -> Vec<u8> {
        let header = Header {
            src_cid: program.pick(&[GUEST_CID, GUEST_CID, GUEST_CID, 2, 9]),
            dst_cid: program.pick(&[HOST_CID, HOST_CID, HOST_CID, 3]),
            src_port: program.pick(&GUEST_PORTS),
            dst_port: program.pick(&HOST_PORTS),
            length: program.pick(&[0, 1, 100, 4096, 65536, 65537, u32::MAX]),
            kind: program.pick(&[1, 1, 1, 1, 2]),
            op: program.pick(&[op::REQUEST, op::DATA, op::SHUTDOWN, op::RESPONSE, op::CREDIT_UPDATE, 7, 3, 0, 99]),
            flags: u32::from(program.byte() & 3),
            buf_alloc: program.pick(&[1 << 20, 65536, 100, 0, u32::MAX]),
            fwd_cnt: program.pick(&[0, 1, 100, u32::MAX]),
        };
        header.bytes().to_vec()
    }

    fn host(&mut self, _rig: &Rig<VsockDevice>, what: u8) {
        let which = usize::from(what >> 3);
        match what & 7 {
            0 if self.programs.len() < 50 => {
                let mut program = UnixStream::connect(self.folder.path().join("sock")).unwrap();
                let port = GUEST_PORTS[which % GUEST_PORTS.len()];
                let _ = program.write_all(format!("CONNECT {port}\n").as_bytes());
                self.add(program);
            }
            1 => {
                while let Ok((program, _)) = self.listener.accept() {
                    self.add(program);
                }
            }
            _ if self.programs.is_empty() => {}
            2 => drop(self.programs.swap_remove(which % self.programs.len())),
            3 => {
                let at = which % self.programs.len();
                let _ = self.programs[at].shutdown(std::net::Shutdown::Write);
            }
            4 => {
                let at = which % self.programs.len();
                let _ = self.programs[at].read(&mut [0; 4096]);
            }
            _ => {
                let at = which % self.programs.len();
                let _ = self.programs[at].write(&vec![what; which * 300]);
            }
        }
    }

    fn check(&mut self, rig: &mut Rig<VsockDevice>) {
        assert!(rig.device.device().connections() <= CONNECTIONS_MAX);
        self.host(rig, 1);
        self.programs.clear();
        for head in 0..RIG_SIZE {
            rig.offer(0, head, &[(BUFFERS + 0x1000 * u64::from(head), 4096, WRITE)]);
        }
        rig.ring(0);
        rig.host();
        let request = Header {
            src_cid: GUEST_CID,
            dst_cid: HOST_CID,
            src_port: 7,
            dst_port: 80,
            kind: 1,
            op: op::REQUEST,
            ..Header::default()
        };
        rig.put(BUFFERS + 0x10_0000, &request.bytes());
        rig.offer(1, 0, &[(BUFFERS + 0x10_0000, 44, 0)]);
        rig.ring(1);
        assert_eq!(rig.used(1), Some((0, 0)));
        let used: Vec<_> = std::iter::from_fn(|| rig.used(0)).collect();
        let answered = used.into_iter().any(|(head, _)| {
            let bytes = rig.get(BUFFERS + 0x1000 * u64::from(head), 44);
            let header = Header::parse(&bytes.try_into().unwrap());
            header.dst_port == 7 && header.op == op::RESPONSE
        });
        assert!(answered, "a new connection is not answered");
    }
}

fn run(program: &[u8]) {
    fuzz::run(Sockets::new(), program);
}

#[test]
fn fuzz_of_vsock() {
    fuzz::replay(include_str!("../virtio/fuzz/vsock.txt"), run);
    bolero::check!().with_max_len(PROGRAM_MAX).with_test_time(fuzz::duration()).for_each(run);
}
