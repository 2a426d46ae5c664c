use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::devices::virtio::Device;
use crate::devices::virtio::testing::*;

/// Answers requests without looking at them, and counts them.
struct Counter {
    queue: RequestQueue,
    answered: AtomicUsize,
    /// Bytes that each has the host write besides.
    beyond: u64,
}

impl Counter {
    fn new(memory: GuestMemoryMmap, line: Arc<Line>, beyond: u64) -> Self {
        Self { queue: RequestQueue::new(memory, line), answered: AtomicUsize::new(0), beyond }
    }
}

impl Device for Counter {
    fn id(&self) -> u32 {
        2
    }
    fn features(&self) -> u64 {
        0
    }
    fn queue_sizes(&self) -> &'static [u16] {
        &[16]
    }
    fn config(&self) -> &[u8] {
        &[]
    }
    fn set_ring(&self, _queue: u16, ring: Option<Ring>) {
        self.queue.set_ring(ring);
    }
    fn queue_notify(&self, _queue: u16) -> Progress {
        self.queue.turn(8, |_| {
            self.answered.fetch_add(1, Ordering::SeqCst);
            Ok(Answer { written: 0, beyond: self.beyond })
        })
    }
}

#[test]
fn a_turn_ends_when_its_budget_of_bytes_is_spent() {
    let mut rig = Rig::new(0, |memory, line| Counter::new(memory, line, 0));
    (0..8).for_each(|head| rig.offer(0, head, &[(BUFFERS, 2 << 20, 0)]));
    let turns: Vec<_> = (0..4).map(|_| rig.device.queue_turn(0)).collect();
    assert_eq!(turns, [Progress::More; 4]);
    assert_eq!(rig.device.device().answered.load(Ordering::SeqCst), 8);
    assert_eq!(rig.device.queue_turn(0), Progress::Done);
}

#[test]
fn what_a_request_has_the_host_write_is_in_a_turns_budget() {
    let mut rig = Rig::new(0, |memory, line| Counter::new(memory, line, 4 << 20));
    (0..2).for_each(|head| rig.offer(0, head, &[(BUFFERS, 16, 0)]));
    assert_eq!(rig.device.queue_turn(0), Progress::More);
    assert_eq!(rig.device.device().answered.load(Ordering::SeqCst), 1);
}
