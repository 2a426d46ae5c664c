use std::thread;

use vm_memory::{Bytes, GuestAddress};

use super::*;
use crate::devices::net::{Delivery, Frame, HEADER_BYTES, MAX_FRAME, Sink, WAITING_MAX};
use crate::devices::virtio::testing::*;
use crate::devices::virtio::{ChainError, Fault, Progress};

const RX: usize = 0;
const TX: usize = 1;
const RX_BUFFERS: u64 = 0x10_0000;
const TX_BUFFERS: u64 = 0x20_0000;
const BUFFER: u64 = 2048;
const SIZE: u16 = 16;
const BROADCAST: [u8; 6] = [0xff; 6];

/// A guest with a device on the switch.
struct Guest {
    device: MmioTransport<NetDevice>,
    memory: GuestMemoryMmap,
    queues: Vec<TestQueue>,
    bell: Arc<Bell>,
    posted: u16,
    sent: u16,
}

impl Guest {
    fn new(switch: &Arc<Switch>, number: u16, features: u64) -> Self {
        let (memory, bell) = (guest_memory(), bell());
        let number = PortNumber::new(number).unwrap();
        let device = NetDevice::attach(switch, number, memory.clone(), Arc::clone(&bell) as _).unwrap();
        let queues = bring_up(&device, &memory, features, SIZE);
        Self { device, memory, queues, bell, posted: 0, sent: 0 }
    }

    /// Posts receive buffers, and rings if the device asks for it, as a driver does.
    fn post(&mut self, count: u16) {
        for _ in 0..count {
            let at = self.posted % SIZE;
            self.queues[RX].describe(at, RX_BUFFERS + u64::from(at) * BUFFER, BUFFER as u32, WRITE, 0);
            self.queues[RX].offer(at);
            self.posted = self.posted.wrapping_add(1);
        }
        if !self.queues[RX].no_kick() {
            self.queues[RX].ring(&self.device);
        }
    }

    /// Queues a frame, header and payload in separate descriptors, without ringing.
    fn queue(&mut self, to: [u8; 6], payload: &[u8]) {
        let own = self.device.device().mac.0;
        let ethernet = [&to[..], &own, &[0x88, 0xb5], payload].concat();
        let at = self.sent % SIZE;
        let buffer = TX_BUFFERS + u64::from(at) * BUFFER;
        self.memory.write_slice(&[0; HEADER_BYTES], GuestAddress(buffer)).unwrap();
        self.memory.write_slice(&ethernet, GuestAddress(buffer + 64)).unwrap();
        self.queues[TX].describe(at, buffer, HEADER_BYTES as u32, NEXT, at + 1);
        self.queues[TX].describe(at + 1, buffer + 64, ethernet.len() as u32, 0, 0);
        self.queues[TX].offer(at);
        self.sent = self.sent.wrapping_add(2);
    }

    fn send(&mut self, to: [u8; 6], payload: &[u8]) {
        self.queue(to, payload);
        self.queues[TX].ring(&self.device);
    }

    /// The payload of the next received frame.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let (head, length) = self.queues[RX].used()?;
        let mut frame = vec![0; length as usize];
        self.memory.read_slice(&mut frame, GuestAddress(RX_BUFFERS + u64::from(head) * BUFFER)).unwrap();
        assert_eq!(frame[10..HEADER_BYTES], [1, 0]);
        Some(frame.split_off(HEADER_BYTES + 14))
    }

    fn received(&mut self) -> usize {
        std::iter::from_fn(|| self.receive()).count()
    }

    fn first_fault(&self) -> &Fault {
        self.device.line().first_fault().unwrap()
    }
}

fn mac(number: u16) -> [u8; 6] {
    PortNumber::new(number).unwrap().mac().0
}

fn pair(features: u64) -> (Arc<Switch>, Guest, Guest) {
    let switch = Switch::new();
    let (a, b) = (Guest::new(&switch, 1, features), Guest::new(&switch, 2, features));
    (switch, a, b)
}

#[test]
fn a_frame_arrives_on_the_senders_thread_and_the_receiver_is_notified() {
    let (_switch, mut a, mut b) = pair(0);
    b.post(4);
    a.send(mac(2), b"hello");
    assert_eq!(b.receive().unwrap(), b"hello");
    assert_eq!(b.bell.rung(), 1);
    assert_eq!(read32(&b.device, 0x60), 1);
    assert_eq!(a.queues[TX].used(), Some((0, 0)));
}

#[test]
fn the_configuration_space_holds_the_ports_mac() {
    let (_switch, a, _b) = pair(0);
    let mut config = [0xaa; 8];
    a.device.read(0x100, &mut config);
    assert_eq!(config, [0x52, 0x54, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn a_full_size_frame_passes_and_a_longer_one_is_counted() {
    let (_switch, mut a, mut b) = pair(0);
    b.post(4);
    a.send(mac(2), &[7; MAX_FRAME - 14]);
    assert_eq!(b.receive().unwrap(), [7; MAX_FRAME - 14]);
    a.send(mac(2), &[7; MAX_FRAME - 13]);
    assert_eq!(b.receive(), None);
    assert_eq!(a.device.device().stats().drops.oversize, 1);
    assert_eq!(a.device.line().faults(), 0);
}

#[test]
fn a_chain_without_a_whole_ethernet_header_is_a_runt() {
    let (_switch, mut a, _b) = pair(0);
    a.queues[TX].describe(0, TX_BUFFERS, 20, 0, 0);
    a.queues[TX].offer(0);
    a.queues[TX].ring(&a.device);
    assert_eq!((a.device.device().stats().drops.runt, a.device.line().faults()), (1, 0));
}

#[test]
fn frames_without_a_buffer_wait_in_order_and_come_when_buffers_are_posted() {
    let (_switch, mut a, mut b) = pair(0);
    assert!(b.queues[RX].no_kick());
    b.post(1);
    for n in 0..5u8 {
        a.send(mac(2), &[n]);
    }
    assert!(!b.queues[RX].no_kick());
    b.post(2);
    b.post(2);
    let got: Vec<_> = std::iter::from_fn(|| b.receive()).collect();
    assert_eq!(got, [[0], [1], [2], [3], [4]]);
    assert!(b.queues[RX].no_kick());
}

#[test]
fn with_event_indexes_frames_wait_and_come_all_the_same() {
    let (_switch, mut a, mut b) = pair(EVENT_IDX);
    for n in 0..40u8 {
        a.send(mac(2), &[n]);
    }
    for n in 0..40u8 {
        b.post(1);
        assert_eq!(b.receive().unwrap(), [n]);
    }
}

#[test]
fn more_frames_than_may_wait_are_dropped_and_counted() {
    let (switch, mut a, mut b) = pair(0);
    for _ in 0..WAITING_MAX + 10 {
        a.send(mac(2), b"x");
    }
    let stats = b.device.device().stats();
    assert_eq!((stats.received_frames, stats.drops.queue_full), (WAITING_MAX as u64, 10));
    assert_eq!(switch.total().drops.total(), 10);
    let mut got = 0;
    while got < WAITING_MAX {
        b.post(SIZE);
        got += b.received();
    }
    assert_eq!(got, WAITING_MAX);
}

#[test]
fn a_receiver_that_polls_is_not_notified() {
    let (_switch, mut a, mut b) = pair(0);
    b.post(8);
    b.queues[RX].wish(true, 0);
    a.send(mac(2), b"x");
    assert_eq!((b.bell.rung(), b.received()), (0, 1));
    b.queues[RX].wish(false, 0);
    a.send(mac(2), b"x");
    assert_eq!(b.bell.rung(), 1);
}

#[test]
fn the_used_event_index_decides_when_to_notify() {
    let (_switch, mut a, mut b) = pair(EVENT_IDX);
    b.post(8);
    b.queues[RX].wish(false, 2);
    for notified in [0, 0, 1, 1] {
        a.send(mac(2), b"x");
        assert_eq!(b.bell.rung(), notified);
    }
}

#[test]
fn a_batch_notifies_the_receiver_once() {
    let (_switch, mut a, mut b) = pair(0);
    b.post(8);
    b.send(BROADCAST, b"here I am");
    for _ in 0..6 {
        a.queue(mac(2), b"x");
    }
    a.queues[TX].ring(&a.device);
    assert_eq!((b.bell.rung() - 1, b.received()), (1, 6));
}

#[test]
fn a_frame_for_a_guest_without_a_driver_is_counted_there_and_is_no_fault() {
    let switch = Switch::new();
    let mut a = Guest::new(&switch, 1, 0);
    let number = PortNumber::new(2).unwrap();
    let silent = NetDevice::attach(&switch, number, guest_memory(), bell()).unwrap();
    a.send(mac(2), b"x");
    let drops = silent.device().stats().drops;
    assert_eq!((drops.receiver_down, drops.total(), a.device.device().stats().drops.total()), (1, 1, 0));
    assert_eq!(silent.line().faults(), 0);
}

#[test]
fn frames_that_wait_are_gone_after_a_reset() {
    let (_switch, mut a, mut b) = pair(0);
    a.send(mac(2), b"old");
    b.queues = bring_up(&b.device, &b.memory, 0, SIZE);
    b.memory.write_slice(&[0; 0x1_0000], GuestAddress(0x1_0000)).unwrap();
    b.post(4);
    assert_eq!(b.receive(), None);
    a.send(mac(2), b"new");
    assert_eq!(b.receive().unwrap(), b"new");
}

/// Mistakes that a driver can make in the transmit queue, with the fault of each.
#[test]
fn malformed_transmit_chains_turn_the_device_off() {
    type Spoil = fn(&mut TestQueue);
    type Expected = fn(&ChainError) -> bool;
    let cases: [(&str, Spoil, Expected); 7] = [
        ("loop", |q| q.describe(0, TX_BUFFERS, 64, NEXT, 0), |e| matches!(e, ChainError::Endless)),
        ("next outside", |q| q.describe(0, TX_BUFFERS, 64, NEXT, SIZE), |e| matches!(e, ChainError::Endless)),
        (
            "4 GiB in all",
            |q| {
                q.describe(0, TX_BUFFERS, u32::MAX, NEXT, 1);
                q.describe(1, TX_BUFFERS, u32::MAX, 0, 0);
            },
            |e| matches!(e, ChainError::Endless | ChainError::Memory(_)),
        ),
        ("for writing", |q| q.describe(0, TX_BUFFERS, 64, WRITE, 0), |e| matches!(e, ChainError::Direction)),
        ("outside", |q| q.describe(0, MEMORY_BYTES - 4, 64, 0, 0), |e| matches!(e, ChainError::Memory(_))),
        ("wraps", |q| q.describe(0, u64::MAX - 4, 64, 0, 0), |e| matches!(e, ChainError::Memory(_))),
        ("table", |q| q.describe(0, TX_BUFFERS, 64, INDIRECT, 0), |e| matches!(e, ChainError::Indirect)),
    ];
    for (name, spoil, expected) in cases {
        let (_switch, mut a, mut b) = pair(0);
        b.post(4);
        spoil(&mut a.queues[TX]);
        a.queues[TX].offer(0);
        a.queues[TX].ring(&a.device);
        assert_eq!(read32(&a.device, 0x70), 15 | 0x40, "{name}");
        assert!(matches!(a.first_fault(), Fault::Chain { queue: 1, head: 0, cause } if expected(cause)), "{name}");
        a.send(mac(2), b"after");
        assert_eq!((a.device.line().faults(), b.receive()), (1, None), "{name}");
    }
}

#[test]
fn a_head_outside_of_the_table_and_a_leaping_index_are_faults() {
    let (_switch, mut a, _b) = pair(0);
    a.queues[TX].offer(SIZE);
    a.queues[TX].ring(&a.device);
    assert!(matches!(a.first_fault(), Fault::Chain { head: SIZE, cause: ChainError::Endless, .. }));

    let (_switch, a, _b) = pair(0);
    a.queues[TX].claim_offered(SIZE + 1);
    a.queues[TX].ring(&a.device);
    assert!(matches!(a.first_fault(), Fault::Ring { queue: 1, .. }));
}

#[test]
fn a_receive_chain_that_is_too_small_or_read_only_is_the_receivers_fault() {
    for (length, flags) in [(20, WRITE), (2048, 0)] {
        let (_switch, mut a, mut b) = pair(0);
        b.queues[RX].describe(0, RX_BUFFERS, length, flags, 0);
        b.queues[RX].offer(0);
        a.send(mac(2), b"a frame");
        assert!(matches!(b.first_fault(), Fault::Chain { queue: 0, head: 0, .. }));
        assert_eq!((a.device.line().faults(), b.bell.rung()), (0, 1));
        b.send(mac(1), b"here");
        a.send(mac(2), b"again");
        assert_eq!(b.device.line().faults(), 1);
    }
}

#[test]
fn two_guests_that_send_to_each_other_from_two_threads_do_not_deadlock() {
    const FRAMES: usize = 2000;
    let (switch, mut a, mut b) = pair(EVENT_IDX);
    let chat = |guest: &mut Guest, to: [u8; 6]| {
        guest.post(SIZE);
        for n in 0..FRAMES {
            guest.send(to, &n.to_le_bytes());
            // This sender is slower than the other, so that frames also wait and are dropped.
            if n % 3 == 0 {
                let free = guest.received() as u16;
                guest.post(free);
            }
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| chat(&mut a, mac(2)));
        scope.spawn(|| chat(&mut b, mac(1)));
    });
    let total = switch.total();
    assert_eq!(total.sent_frames, 2 * FRAMES as u64);
    assert_eq!(total.received_frames + total.drops.queue_full, total.sent_frames);
    assert_eq!((a.device.line().faults(), b.device.line().faults()), (0, 0));
}

#[test]
fn a_port_outlives_a_delivery_in_flight() {
    let (_switch, mut a, b) = pair(0);
    let receiver = Arc::clone(&b.device.device().receiver);
    drop(b);
    a.send(mac(2), b"x");
    assert_eq!(a.device.device().stats().drops.no_port, 1);
    assert!(matches!(receiver.deliver(&Frame::new()), Delivery::Quiet));
}

/// A receiver during whose deliveries another vCPU of the sender makes the same frame available anew.
struct Feeder {
    memory: GuestMemoryMmap,
    fed: std::sync::atomic::AtomicU16,
}

/// More than any turn may take.
const FED_MAX: u16 = 5000;

impl Sink for Feeder {
    fn deliver(&self, _frame: &Frame) -> Delivery {
        let fed = self.fed.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        if fed < FED_MAX {
            TestQueue::new(self.memory.clone(), TX as u16, SIZE).claim_offered(fed + 1);
        }
        Delivery::Quiet
    }

    fn notify(&self) {}
}

#[test]
fn a_queue_that_another_vcpu_feeds_goes_back_to_the_scheduler_after_a_turn() {
    let switch = Switch::new();
    let mut sender = Guest::new(&switch, 1, 0);
    let feeder = Arc::new(Feeder { memory: sender.memory.clone(), fed: Default::default() });
    let _port = switch.attach(PortNumber::new(2).unwrap(), Arc::clone(&feeder) as _).unwrap();
    // Every entry of the ring names the same chain.
    (0..SIZE).for_each(|_| sender.queues[TX].offer(0));
    sender.queues[TX].claim_offered(0);
    let ethernet = [&mac(2)[..], &mac(1), &[0x88, 0xb5]].concat();
    sender.memory.write_slice(&ethernet, GuestAddress(TX_BUFFERS + HEADER_BYTES as u64)).unwrap();
    sender.queues[TX].describe(0, TX_BUFFERS, (HEADER_BYTES + ethernet.len()) as u32, 0, 0);
    sender.queues[TX].claim_offered(1);
    let _ = sender.device.write(0x50, &(TX as u32).to_le_bytes());
    assert_eq!(feeder.fed.load(std::sync::atomic::Ordering::SeqCst), 256);
}

#[test]
fn a_receiver_with_buffers_of_few_bytes_costs_its_peers_few_descriptors() {
    let (_switch, mut a, mut b) = pair(0);
    // A chain of all descriptors, into which the frame would just fit.
    (0..SIZE).for_each(|at| {
        let next = if at + 1 < SIZE { NEXT } else { 0 };
        b.queues[RX].describe(at, RX_BUFFERS, 2, WRITE | next, at + 1);
    });
    b.queues[RX].offer(0);
    a.send(mac(2), b"hello");
    assert!(matches!(b.first_fault(), Fault::Chain { cause: ChainError::Endless, .. }));
    assert_eq!(a.device.line().faults(), 0);
}

#[test]
fn copies_of_floods_are_in_a_turns_budget() {
    struct Nobody;
    impl Sink for Nobody {
        fn deliver(&self, _frame: &Frame) -> Delivery {
            Delivery::Quiet
        }
        fn notify(&self) {}
    }
    let switch = Switch::new();
    let mut a = Guest::new(&switch, 1, 0);
    let attach = |number| switch.attach(PortNumber::new(number).unwrap(), Arc::new(Nobody)).unwrap();
    let _others: Vec<_> = (2..=256).map(attach).collect();
    // Two descriptors and 254 more copies each: eight of them are 2,048.
    (0..8).for_each(|_| a.queue(BROADCAST, b"x"));
    assert_eq!(a.device.queue_turn(TX as u16), Progress::More);
    assert_eq!(a.device.queue_turn(TX as u16), Progress::Done);
    (0..8).for_each(|_| a.queue(mac(2), b"x"));
    assert_eq!(a.device.queue_turn(TX as u16), Progress::Done);
}
