//! Fuzz target of the network device: a guest on a switch, and a peer that sends to it.

use super::*;
use crate::devices::net::frame::{MAX_FRAME, test_frame};
use crate::devices::net::{Delivery, HEADER_BYTES, Sink, WAITING_MAX};
use crate::devices::virtio::cost::{self, Cost};
use crate::devices::virtio::fuzz::{self, PROGRAM_MAX, Program, Target};
use crate::devices::virtio::testing::*;

struct Peer;

impl Sink for Peer {
    fn deliver(&self, _frame: &Frame) -> Delivery {
        Delivery::Quiet
    }
    fn notify(&self) {
        cost::wake();
    }
}

struct Guests {
    switch: Arc<Switch>,
    peer: Port,
}

fn number(port: u16) -> PortNumber {
    PortNumber::new(port).unwrap()
}

impl Guests {
    fn new() -> Self {
        let switch = Switch::new();
        let peer = switch.attach(number(2), Arc::new(Peer)).unwrap();
        Self { switch, peer }
    }

    fn send(&self, length: u8) {
        let frame = test_frame(number(1).mac(), number(2).mac(), &vec![length; usize::from(length) * 5]);
        self.peer.send(&frame, &mut Wakes::new());
    }
}

impl Target for Guests {
    type Device = NetDevice;
    /// 256 frames, which are copied once. A peer is woken once a turn.
    const MOST: Cost = Cost {
        descriptors: cost::descriptors(256),
        bytes: 256 * (HEADER_BYTES + MAX_FRAME),
        allocations: 64,
        wakes: 2,
    };

    fn rig(&mut self) -> Rig<NetDevice> {
        Rig::new(0, |memory, line| NetDevice::on_switch(&self.switch, number(1), memory, line).unwrap())
    }

    fn header(&mut self, program: &mut Program<'_>) -> Vec<u8> {
        let to = program.pick(&[number(2).mac().0, [0xff; 6], number(1).mac().0, number(9).mac().0]);
        let any = [program.byte(); 6];
        let from = program.pick(&[number(1).mac().0, number(1).mac().0, number(2).mac().0, any]);
        [&[program.byte(); HEADER_BYTES][..], &to, &from, &[8, 0]].concat()
    }

    fn host(&mut self, _rig: &Rig<NetDevice>, what: u8) {
        (0..=what >> 4).for_each(|_| self.send(what));
    }

    fn check(&mut self, rig: &mut Rig<NetDevice>) {
        rig.offer(0, 0, &[(BUFFERS, 2048, WRITE)]);
        rig.ring(0);
        // Whatever addresses the guest has claimed.
        let frame = test_frame(number(1).mac(), number(2).mac(), b"still here");
        self.peer.send(&frame, &mut Wakes::new());
        assert_eq!(rig.used(0), Some((0, (HEADER_BYTES + frame.length()) as u32)));
        let stats = rig.device.device().stats();
        assert!(stats.drops.queue_full == 0 || stats.received_frames >= WAITING_MAX as u64);
    }
}

fn run(program: &[u8]) {
    fuzz::run(Guests::new(), program);
}

#[test]
fn fuzz_of_net() {
    fuzz::replay(include_str!("../../../virtio/fuzz/net.txt"), run);
    bolero::check!().with_max_len(PROGRAM_MAX).with_test_time(fuzz::duration()).for_each(run);
}
