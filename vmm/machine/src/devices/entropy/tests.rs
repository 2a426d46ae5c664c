use super::*;
use crate::devices::virtio::testing::*;

fn rig() -> Rig<EntropyDevice> {
    Rig::new(0, EntropyDevice::new)
}

#[test]
fn a_request_is_filled_over_all_its_buffers_and_each_time_differently() {
    let mut rig = rig();
    let mut ask = |head| {
        rig.offer(0, head, &[(BUFFERS, 20, WRITE), (BUFFERS + 100, 44, WRITE)]);
        rig.ring(0);
        assert_eq!(rig.used(0), Some((head.into(), 64)));
        [rig.get(BUFFERS, 20), rig.get(BUFFERS + 100, 44)].concat()
    };
    let (first, second) = (ask(0), ask(2));
    assert_ne!(first, second);
    assert!(first.iter().any(|byte| *byte != 0));
}

#[test]
fn a_request_for_more_than_is_given_gets_that_much() {
    let mut rig = rig();
    rig.offer(0, 0, &[(BUFFERS, 1 << 20, WRITE)]);
    rig.ring(0);
    assert_eq!(rig.used(0), Some((0, 256)));
    assert_eq!(rig.get(BUFFERS + 256, 64), [0; 64]);
}

#[test]
fn more_requests_than_one_turn_has_are_all_answered_and_the_guest_is_told() {
    let mut rig = rig();
    for head in 0..RIG_SIZE {
        rig.offer(0, head, &[(BUFFERS + 64 * u64::from(head), 64, WRITE)]);
    }
    rig.ring(0);
    assert_eq!(std::iter::from_fn(|| rig.used(0)).count(), usize::from(RIG_SIZE));
    assert!(rig.bell.rung() >= 1);
}

#[test]
fn a_request_without_room_turns_the_device_off() {
    for buffers in [&[(BUFFERS, 64, 0)][..], &[(BUFFERS, 0, WRITE)], &[(MEMORY_BYTES, 64, WRITE)]] {
        let mut rig = rig();
        rig.offer(0, 0, buffers);
        rig.ring(0);
        assert!(rig.fault().is_some(), "{buffers:?}");
        rig.reset(0);
        rig.offer(0, 0, &[(BUFFERS, 8, WRITE)]);
        rig.ring(0);
        assert_eq!(rig.used(0), Some((0, 8)), "{buffers:?}");
    }
}
