use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::devices::net::frame::test_frame;

struct Recorder {
    answer: Delivery,
    taken: Mutex<Vec<Vec<u8>>>,
    notified: AtomicU64,
}

impl Sink for Recorder {
    fn deliver(&self, frame: &Frame) -> Delivery {
        self.taken.lock().push(frame.ethernet()[14..].to_vec());
        self.answer
    }
    fn notify(&self) {
        self.notified.fetch_add(1, Ordering::SeqCst);
    }
}

impl Recorder {
    fn count(&self) -> usize {
        self.taken.lock().len()
    }
    fn notified(&self) -> u64 {
        self.notified.load(Ordering::SeqCst)
    }
}

const BROADCAST: Mac = Mac([0xff; 6]);

fn number(number: u16) -> PortNumber {
    PortNumber::new(number).unwrap()
}

fn attach_as(switch: &Arc<Switch>, port: u16, answer: Delivery) -> (Port, Arc<Recorder>) {
    let sink = Arc::new(Recorder { answer, taken: Mutex::default(), notified: AtomicU64::new(0) });
    (switch.attach(number(port), Arc::clone(&sink) as _).unwrap(), sink)
}

fn attach(switch: &Arc<Switch>, port: u16) -> (Port, Arc<Recorder>) {
    attach_as(switch, port, Delivery::Notify)
}

fn send(port: &Port, to: Mac, payload: &[u8]) {
    port.send(&test_frame(to, port.number().mac(), payload), &mut Wakes::new());
}

#[test]
fn an_unknown_destination_is_flooded_and_a_learnt_one_is_not() {
    let switch = Switch::new();
    let ((a, at_a), (b, at_b), (_c, at_c)) = (attach(&switch, 1), attach(&switch, 2), attach(&switch, 3));
    send(&a, number(2).mac(), b"flooded");
    assert_eq!((at_a.count(), at_b.count(), at_c.count()), (0, 1, 1));
    send(&b, number(1).mac(), b"direct");
    assert_eq!((at_a.count(), at_b.count(), at_c.count()), (1, 1, 1));
    send(&a, number(2).mac(), b"direct");
    assert_eq!((at_a.count(), at_b.count(), at_c.count()), (1, 2, 1));
}

#[test]
fn broadcasts_reach_all_but_the_sender_even_if_somebody_sends_from_that_address() {
    let switch = Switch::new();
    let ports: Vec<_> = (1..=256).map(|n| attach(&switch, n)).collect();
    ports[0].0.send(&test_frame(BROADCAST, BROADCAST, b"x"), &mut Wakes::new());
    send(&ports[7].0, BROADCAST, b"y");
    let counts: Vec<_> = ports.iter().map(|(_, sink)| sink.count()).collect();
    assert_eq!((counts[0], counts[7]), (1, 1));
    assert!(counts.iter().enumerate().all(|(n, &count)| n == 0 || n == 7 || count == 2));
}

#[test]
fn counters_tell_sent_received_and_dropped_apart() {
    let switch = Switch::new();
    let (a, _) = attach(&switch, 1);
    let (b, _) = attach_as(&switch, 2, Delivery::Dropped(DropReason::QueueFull));
    let (c, _) = attach(&switch, 3);
    for port in [&b, &c] {
        send(port, BROADCAST, b"here");
    }
    send(&a, number(2).mac(), b"1234");
    send(&a, number(3).mac(), b"1234");
    let (a, b, c) = (a.stats(), b.stats(), c.stats());
    assert_eq!((a.sent_frames, a.sent_bytes, a.received_frames), (2, 36, 2));
    assert_eq!((b.received_frames, b.drops.queue_full), (0, 2));
    assert_eq!((c.received_frames, c.received_bytes, c.drops.total()), (2, 36, 0));
}

#[test]
fn a_lone_port_and_a_frame_to_oneself_are_counted_as_no_port() {
    let switch = Switch::new();
    let (a, at_a) = attach(&switch, 1);
    send(&a, number(9).mac(), b"x");
    send(&a, number(1).mac(), b"x");
    assert_eq!((a.stats().drops.no_port, at_a.count()), (2, 0));
}

#[test]
fn a_flood_does_not_blame_ports_whose_driver_is_not_ready() {
    let switch = Switch::new();
    let (a, _) = attach(&switch, 1);
    let (b, _) = attach_as(&switch, 2, Delivery::Dropped(DropReason::ReceiverDown));
    send(&a, BROADCAST, b"x");
    assert_eq!(b.stats().drops.total(), 0);
    send(&b, BROADCAST, b"x");
    send(&a, number(2).mac(), b"x");
    assert_eq!(b.stats().drops.receiver_down, 1);
}

#[test]
fn an_address_that_moves_is_found_at_its_new_port() {
    let switch = Switch::new();
    let ((a, _), (b, at_b), (c, at_c)) = (attach(&switch, 1), attach(&switch, 2), attach(&switch, 3));
    let wanderer = Mac([0x52, 0x54, 9, 9, 9, 9]);
    for (port, expected) in [(&b, (1, 0)), (&c, (0, 1))] {
        port.send(&test_frame(BROADCAST, wanderer, b"hello"), &mut Wakes::new());
        let before = (at_b.count(), at_c.count());
        send(&a, wanderer, b"x");
        assert_eq!((at_b.count() - before.0, at_c.count() - before.1), expected);
    }
}

#[test]
fn a_port_that_invents_addresses_fills_its_own_share_alone() {
    let switch = Switch::new();
    let ((a, _), (b, at_b), (_c, at_c)) = (attach(&switch, 1), attach(&switch, 2), attach(&switch, 3));
    for n in 0..1000u16 {
        let [hi, lo] = n.to_be_bytes();
        a.send(&test_frame(BROADCAST, Mac([2, 0, 0, 0, hi, lo]), b"x"), &mut Wakes::new());
    }
    assert_eq!(switch.table.read().learnt.len(), MACS_PER_PORT);
    send(&b, BROADCAST, b"here");
    let (before_b, before_c) = (at_b.count(), at_c.count());
    send(&a, number(2).mac(), b"x");
    assert_eq!((at_b.count() - before_b, at_c.count() - before_c), (1, 0));
}

#[test]
fn a_number_is_free_again_when_its_port_is_dropped_and_its_counts_remain() {
    let switch = Switch::new();
    let (a, _at_a) = attach(&switch, 1);
    let (b, _at_b) = attach(&switch, 2);
    send(&b, number(1).mac(), b"1234");
    let sink = Arc::new(Recorder { answer: Delivery::Quiet, taken: Mutex::default(), notified: AtomicU64::new(0) });
    assert_eq!(switch.attach(number(2), Arc::clone(&sink) as _).err(), Some(AttachError::InUse(number(2))));
    drop(b);
    let again = switch.attach(number(2), sink).unwrap();
    assert_eq!(again.stats(), PortStats::default());
    assert!(switch.table.read().learnt.is_empty());
    assert_eq!((switch.total().sent_frames, switch.total().received_bytes), (1, 18));
    drop((a, again));
    assert!(switch.stats().is_empty());
}

#[test]
fn a_row_of_frames_to_one_port_notifies_it_once() {
    let switch = Switch::new();
    let ((a, _), (b, at_b), (c, at_c)) = (attach(&switch, 1), attach(&switch, 2), attach(&switch, 3));
    for port in [&b, &c] {
        send(port, a.number().mac(), b"here");
    }
    let before = (at_b.notified(), at_c.notified());
    let mut wakes = Wakes::new();
    for to in [2, 2, 2, 3, 3] {
        a.send(&test_frame(number(to).mac(), number(1).mac(), b"x"), &mut wakes);
    }
    assert_eq!((at_b.notified() - before.0, at_c.notified() - before.1), (1, 0));
    drop(wakes);
    assert_eq!((at_b.notified() - before.0, at_c.notified() - before.1), (1, 1));
}
