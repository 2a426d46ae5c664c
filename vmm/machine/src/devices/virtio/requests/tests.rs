use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::devices::virtio::Device;
use crate::devices::virtio::testing::*;

/// Answers requests without looking at them, and counts them.
struct Counter {
    queue: RequestQueue,
    answered: AtomicUsize,
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
            Ok(0)
        })
    }
}

#[test]
fn a_turn_ends_when_its_budget_of_bytes_is_spent() {
    let make = |memory, line| Counter { queue: RequestQueue::new(memory, line), answered: AtomicUsize::new(0) };
    let mut rig = Rig::new(0, make);
    (0..8).for_each(|head| rig.offer(0, head, &[(BUFFERS, 2 << 20, 0)]));
    let turns: Vec<_> = (0..4).map(|_| rig.device.queue_turn(0)).collect();
    assert_eq!(turns, [Progress::More; 4]);
    assert_eq!(rig.device.device().answered.load(Ordering::SeqCst), 8);
    assert_eq!(rig.device.queue_turn(0), Progress::Done);
}
