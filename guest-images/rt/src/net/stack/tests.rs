use alloc::rc::Rc;
use core::cell::RefCell;

use super::*;
use crate::net::testing::Fake;

const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

/// Returns at once. Keeps the queues that it had to announce.
#[derive(Clone, Default)]
struct Parks(Rc<RefCell<Vec<Queues>>>);

impl Park for Parks {
    fn park(&mut self, queues: Queues, until: Option<Ticks>) {
        self.0.borrow_mut().push(queues);
        // A deadline is all that these tests wait for.
        while until.is_some_and(|until| now() < until) {}
    }
}

fn stack() -> (Stack<Fake, Parks>, Fake, Parks) {
    let (fake, parks) = (Fake::default(), Parks::default());
    let address = Address::parse("10.0.0.1/16").unwrap();
    let stack = Stack::new(fake.clone(), address, Clock::with_khz(1_000_000), parks.clone()).unwrap();
    (stack, fake, parks)
}

#[test]
fn what_is_sent_before_a_wait_is_announced_by_the_idle_doorbell_alone() {
    let (mut stack, fake, parks) = stack();
    let deadline = stack.deadline(1_000_000);
    assert_eq!(stack.connect(PEER, 1, deadline), Err(NetError::TimedOut));
    assert!(fake.offered(TRANSMIT) > 0, "it asks who has the peer's address");
    assert_eq!(parks.0.borrow()[0], Queues::NONE.with(RECEIVE).with(TRANSMIT));
}

#[test]
fn who_has_no_time_to_wait_announces_by_the_register() {
    let (mut stack, fake, parks) = stack();
    assert_eq!(stack.connect(PEER, 1, now()), Err(NetError::TimedOut));
    assert!(parks.0.borrow().is_empty());
    let mut notified = fake.notified();
    notified.sort_unstable();
    assert_eq!(notified, [RECEIVE, TRANSMIT]);
}

#[test]
fn a_flush_announces_by_the_register_and_only_what_is_new() {
    let (mut stack, fake, _) = stack();
    stack.flush();
    assert_eq!(fake.notified(), [RECEIVE]);
    stack.flush();
    assert_eq!(fake.notified(), []);
}
