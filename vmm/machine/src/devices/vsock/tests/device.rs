//! The device: its registers, its resets, and the faults that turn it off.

use super::*;
use crate::devices::virtio::Device;

/// A descriptor: address, length, flags.
type Part = (u64, u32, u16);

#[test]
fn the_guest_knows_its_address() {
    let guest = Guest::new();
    let mut cid = [0; 8];
    guest.rig.device.read(0x100, &mut cid);
    assert_eq!(u64::from_le_bytes(cid), GUEST_CID);
}

#[test]
fn features_and_queues_are_those_of_a_socket_device() {
    let guest = Guest::new();
    let device = guest.rig.device.device();
    assert_eq!((device.id(), device.features(), device.queue_sizes().len()), (19, 0, 3));
}

#[test]
fn a_reset_of_the_device_ends_its_connections_and_new_ones_work() {
    let mut guest = Guest::new();
    let listener = guest.listen(80);
    let mut program = guest.connect(80, &listener);
    guest.rig.reset(0);
    (guest.posted, guest.sent) = (0, 0);
    assert!(ended(&mut program));
    guest.post(RIG_SIZE);
    let _again = guest.connect(80, &listener);
    guest.accept();
}

#[test]
fn host_programs_wait_until_the_driver_is_ready() {
    let mut guest = Guest::new();
    write32(&guest.rig.device, 0x70, 0);
    let mut program = UnixStream::connect(guest.path()).unwrap();
    program.write_all(b"CONNECT 5000\n").unwrap();
    guest.rig.host();
    assert_eq!(guest.connections(), 0);
    guest.rig.reset(0);
    (guest.posted, guest.sent) = (0, 0);
    guest.post(RIG_SIZE);
    guest.expect(op::REQUEST);
}

#[test]
fn malformed_packets_turn_the_device_off_and_end_its_connections() {
    let long = data(80, &[0; 100]);
    let cases: [(&str, usize, &[Part]); 6] = [
        ("short header", TX, &[(SEND, 43, 0)]),
        ("less data than it says", TX, &[(SEND, 44, 0), (SEND + 0x100, 99, 0)]),
        ("for writing", TX, &[(SEND, 44, WRITE)]),
        ("outside", TX, &[(MEMORY_BYTES - 4, 44, 0)]),
        ("no room for a header", RX, &[(RECEIVE, 43, WRITE)]),
        ("for reading", RX, &[(RECEIVE, 4096, 0)]),
    ];
    for (name, queue, buffers) in cases {
        let mut guest = Guest::new();
        let listener = guest.listen(80);
        let mut program = guest.connect(80, &listener);
        if queue == RX {
            guest.rig.reset(0);
        }
        guest.rig.put(SEND, &long.bytes());
        guest.rig.offer(queue, 4, buffers);
        if queue == RX {
            let mut caller = UnixStream::connect(guest.path()).unwrap();
            caller.write_all(b"CONNECT 5000\n").unwrap();
        }
        guest.rig.ring(queue);
        guest.rig.host();
        assert!(guest.rig.fault().is_some(), "{name}");
        assert!(ended(&mut program), "{name}");
        assert_eq!(guest.connections(), 0, "{name}");
    }
}
