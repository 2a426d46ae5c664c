use smoltcp::phy::{Device, TxToken as _};

use super::*;
use crate::net::testing::Fake;

fn nic(fake: &Fake) -> Nic<Fake> {
    let mut nic = Nic::new(fake.clone()).unwrap();
    assert_eq!(nic.unannounced(), Queues::NONE.with(RECEIVE), "the buffers of the start");
    nic
}

fn send(nic: &mut Nic<Fake>) {
    nic.transmit(Instant::ZERO).unwrap().consume(60, |frame| frame.fill(7));
}

#[test]
fn frames_wait_in_the_ring_until_they_are_announced_and_are_announced_once() {
    let fake = Fake::default();
    let mut nic = nic(&fake);
    (0..3).for_each(|_| send(&mut nic));
    assert_eq!((fake.offered(TRANSMIT), fake.notified()), (3, vec![]));
    assert_eq!(nic.unannounced(), Queues::NONE.with(TRANSMIT));
    assert_eq!(nic.unannounced(), Queues::NONE);
    nic.flush();
    assert_eq!(fake.notified(), []);
    send(&mut nic);
    nic.flush();
    assert_eq!(fake.notified(), [TRANSMIT]);
}

#[test]
fn a_device_that_does_not_want_to_know_is_not_told() {
    let fake = Fake::default();
    let mut nic = nic(&fake);
    fake.wants_to_know(TRANSMIT, false);
    send(&mut nic);
    nic.flush();
    assert_eq!((nic.unannounced(), fake.notified()), (Queues::NONE, vec![]));
    fake.wants_to_know(TRANSMIT, true);
    send(&mut nic);
    assert_eq!(nic.unannounced(), Queues::NONE.with(TRANSMIT));
}

#[test]
fn a_full_ring_is_announced_at_once_and_its_buffers_are_used_again() {
    let fake = Fake::that_serves();
    let mut nic = nic(&fake);
    (0..3 * RING + 1).for_each(|_| send(&mut nic));
    assert_eq!(fake.sent(), 3 * RING, "all but the last, which waits for company");
    assert_eq!(fake.notified(), [TRANSMIT; 3]);
}

#[test]
fn a_full_ring_that_nobody_serves_takes_no_more() {
    let fake = Fake::default();
    let mut nic = nic(&fake);
    (0..RING).for_each(|_| send(&mut nic));
    assert!(nic.transmit(Instant::ZERO).is_none());
    assert_eq!(fake.notified(), [TRANSMIT]);
}
