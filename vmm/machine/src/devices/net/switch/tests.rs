use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::devices::net::Mac;
use crate::devices::net::frame::{HEADER_BYTES, test_frame};

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
fn a_frame_goes_to_the_port_of_its_destination_and_to_no_other() {
    let switch = Switch::new();
    let ((a, at_a), (b, at_b), (_c, at_c)) = (attach(&switch, 1), attach(&switch, 2), attach(&switch, 3));
    // Nobody has spoken before.
    send(&a, number(2).mac(), b"direct");
    send(&b, number(1).mac(), b"direct");
    assert_eq!((at_a.count(), at_b.count(), at_c.count()), (1, 1, 0));
    for nowhere in [number(9).mac(), Mac([2, 0, 0, 0, 0, 2]), Mac([0; 6])] {
        send(&a, nowhere, b"lost");
    }
    assert_eq!((at_a.count(), at_b.count(), at_c.count()), (1, 1, 0));
    assert_eq!(a.stats().drops.no_port, 3);
}

#[test]
fn broadcasts_reach_all_but_the_sender() {
    let switch = Switch::new();
    let ports: Vec<_> = (1..=256).map(|n| attach(&switch, n)).collect();
    send(&ports[0].0, BROADCAST, b"x");
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
fn a_port_that_claims_addresses_of_others_is_refused_and_takes_nothing_from_them() {
    let switch = Switch::new();
    let ((a, at_a), (b, at_b), (thief, at_thief)) = (attach(&switch, 1), attach(&switch, 2), attach(&switch, 3));
    send(&b, number(1).mac(), b"here");
    let invented = (0..1000u16).map(|n| Mac([2, 0, 0, 0, n.to_be_bytes()[0], n.to_be_bytes()[1]]));
    let claimed: Vec<Mac> = [number(2).mac(), BROADCAST, Mac([0; 6])].into_iter().chain(invented).collect();
    for source in &claimed {
        thief.send(&test_frame(number(1).mac(), *source, b"I am b"), &mut Wakes::new());
        thief.send(&test_frame(BROADCAST, *source, b"I am b"), &mut Wakes::new());
    }
    send(&a, number(2).mac(), b"for b alone");
    assert_eq!((at_a.count(), at_b.count(), at_thief.count()), (1, 1, 0));
    let refused = thief.stats();
    assert_eq!((refused.drops.foreign_source, refused.sent_frames), (2 * claimed.len() as u64, 0));
    assert_eq!(refused.drops.total(), switch.total().drops.total());
}

#[test]
fn a_pinned_port_that_claims_another_ones_ipv4_address_is_refused_and_its_neighbours_are_not_looked_at() {
    let switch = Switch::new();
    switch.pin(number(2), number(2).ip());
    let ((a, at_a), (b, at_b)) = (attach(&switch, 1), attach(&switch, 2));
    // The answer to a request for the address of port 3, and one for its own.
    let answer = |from: &Port, address: Ipv4Addr| {
        let start = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 2];
        let station = from.number().mac().0;
        let bytes = [&[0xff; 6], &station[..], &start, &station, &address.octets(), &[0; 10]].concat();
        let mut frame = Frame::new();
        frame.buffer()[HEADER_BYTES..][..bytes.len()].copy_from_slice(&bytes);
        frame.filled(HEADER_BYTES + bytes.len()).unwrap();
        from.send(&frame, &mut Wakes::new());
    };
    answer(&b, number(3).ip());
    assert_eq!((at_a.count(), b.stats().drops.foreign_source, b.stats().sent_frames), (0, 1, 0));
    answer(&b, number(2).ip());
    assert_eq!((at_a.count(), b.stats().drops.foreign_source, b.stats().sent_frames), (1, 1, 1));
    // Which is not pinned.
    answer(&a, number(3).ip());
    assert_eq!((at_b.count(), a.stats().drops.foreign_source), (1, 0));
}

#[test]
fn a_port_that_floods_without_end_is_limited_and_others_are_not() {
    let switch = Switch::new();
    let ((a, _), (b, at_b), (c, _)) = (attach(&switch, 1), attach(&switch, 2), attach(&switch, 3));
    let group = Mac([0x01, 0, 0x5e, 0, 0, 1]);
    for n in 0..10_000 {
        send(&a, if n % 2 == 0 { BROADCAST } else { group }, b"x");
    }
    let refused = a.stats().drops.flood_limit;
    assert_eq!(at_b.count() as u64 + refused, 10_000);
    // What the test takes gives some of the allowance back.
    assert!(refused > 5_000, "{refused}");
    let before = at_b.count();
    send(&c, BROADCAST, b"here");
    send(&a, b.number().mac(), b"direct");
    assert_eq!(at_b.count() - before, 2);
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
