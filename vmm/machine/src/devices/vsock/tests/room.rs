//! Room: no side gets more than there is, and no connection takes the room of another.

use super::*;

#[test]
fn the_guest_gets_no_more_than_it_has_room_for_and_is_asked_for_room_once() {
    let mut guest = Guest::new();
    let listener = guest.listen(80);
    guest.send(Header { buf_alloc: 10, ..from_guest(80, op::REQUEST) }, b"");
    let (mut program, _) = listener.accept().unwrap();
    guest.expect(op::RESPONSE);
    program.write_all(b"0123456789abcdef").unwrap();
    guest.rig.host();
    assert_eq!(guest.expect(op::DATA).1, b"0123456789");
    guest.expect(op::CREDIT_REQUEST);
    program.write_all(b"g").unwrap();
    guest.rig.host();
    guest.nothing_comes();
    guest.send(Header { buf_alloc: 10, fwd_cnt: 10, ..from_guest(80, op::CREDIT_UPDATE) }, b"");
    assert_eq!(guest.expect(op::DATA).1, b"abcdefg");
}

#[test]
fn what_the_program_does_not_read_waits_up_to_the_room_and_more_ends_the_connection() {
    let mut guest = Guest::new();
    let listener = guest.listen(80);
    let mut program = guest.connect(80, &listener);
    // The unix socket takes some bytes, the connection's buffer the rest. So the guest is told of room until both are
    // full.
    let chunk = [b'x'; 4096];
    let (mut sent, mut told) = (0u32, 0u32);
    while sent + 4096 - told <= BUFFER_BYTES {
        guest.send(data(80, &chunk), &chunk);
        sent += 4096;
        while let Some((header, _)) = guest.packet() {
            assert_eq!(header.op, op::CREDIT_UPDATE);
            told = header.fwd_cnt;
        }
    }
    assert!(sent - told > BUFFER_BYTES / 2);
    // Room becomes free as the program reads.
    program.set_nonblocking(true).unwrap();
    let mut heard = 0;
    while heard < sent {
        match program.read(&mut [0; 4096]) {
            Ok(length) => heard += length as u32,
            Err(_) => guest.rig.host(),
        }
    }
    guest.rig.host();
    let told = std::iter::from_fn(|| guest.packet()).last().unwrap().0;
    assert_eq!((told.op, told.fwd_cnt), (op::CREDIT_UPDATE, sent));
    // A guest that ignores its credit is cut off. The device goes on.
    let cut = (0..2 * sent / 4096).any(|_| {
        guest.send(data(80, &chunk), &chunk);
        guest.packet().is_some_and(|(header, _)| header.op == op::RESET)
    });
    assert!(cut);
    assert_eq!((guest.connections(), guest.rig.fault()), (0, None));
}

#[test]
fn a_guest_that_asks_for_room_is_told() {
    let mut guest = Guest::new();
    let listener = guest.listen(80);
    let _program = guest.connect(80, &listener);
    guest.send(data(80, b"abc"), b"abc");
    guest.nothing_comes();
    guest.send(from_guest(80, op::CREDIT_REQUEST), b"");
    let (header, _) = guest.expect(op::CREDIT_UPDATE);
    assert_eq!((header.buf_alloc, header.fwd_cnt), (BUFFER_BYTES, 3));
}

#[test]
fn a_guest_that_takes_no_packets_may_not_send_for_ever() {
    let mut guest = Guest::new();
    // Refusals use up all buffers. Then refusals wait, and then packets do.
    let mut heads = 0;
    for _ in 0..RIG_SIZE as usize + 200 {
        guest.rig.put(SEND, &data(80, b"").bytes());
        guest.rig.offer(TX, heads % RIG_SIZE, &[(SEND, HEADER_BYTES as u32, 0)]);
        heads += 1;
        guest.rig.ring(TX);
        if std::iter::from_fn(|| guest.rig.used(TX)).count() == 0 {
            break;
        }
    }
    assert_eq!(heads, RIG_SIZE + 64 + 1);
    // As the guest takes packets, the device continues.
    let refused = std::iter::from_fn(|| guest.packet()).count();
    assert_eq!(refused, usize::from(heads));
    assert!(guest.rig.used(TX).is_some());
}

#[test]
fn many_connections_move_side_by_side() {
    const MANY: u32 = 100;
    let mut guest = Guest::new();
    let listener = guest.listen(80);
    let mut programs = Vec::new();
    for n in 0..MANY {
        guest.send(Header { src_port: n, ..from_guest(80, op::REQUEST) }, b"");
        programs.push(listener.accept().unwrap().0);
        guest.expect(op::RESPONSE);
    }
    assert_eq!(guest.connections(), MANY as usize);
    for (n, program) in programs.iter_mut().enumerate() {
        program.write_all(&(n as u32).to_le_bytes()).unwrap();
    }
    let mut heard = vec![false; MANY as usize];
    for _ in 0..MANY {
        guest.rig.host();
        let (header, said) = guest.expect(op::DATA);
        assert_eq!(said, header.dst_port.to_le_bytes());
        heard[header.dst_port as usize] = true;
    }
    assert!(heard.iter().all(|heard| *heard));
}

#[test]
fn one_that_talks_without_end_leaves_the_others_their_turns() {
    let mut guest = Guest::new();
    let listener = guest.listen(80);
    let mut programs: Vec<_> = (0..2)
        .map(|n| {
            guest.send(Header { src_port: n, ..from_guest(80, op::REQUEST) }, b"");
            guest.expect(op::RESPONSE);
            listener.accept().unwrap().0
        })
        .collect();
    programs[0].write_all(&[0; 100_000]).unwrap();
    programs[1].write_all(b"one word").unwrap();
    guest.rig.host();
    let first: Vec<_> = (0..3).map(|_| guest.expect(op::DATA).0.dst_port).collect();
    assert!(first.contains(&1), "{first:?}");
}

#[test]
fn data_wait_for_a_chain_that_has_room_for_more_than_a_header_and_hold_nothing_up() {
    let mut guest = Guest::new();
    guest.rig.reset(0);
    let listener = guest.listen(80);
    let header_only = |guest: &mut Guest, at: u16| {
        guest.rig.offer(RX, at, &[(RECEIVE + 0x1000 * u64::from(at), HEADER_BYTES as u32, WRITE)]);
        guest.rig.ring(RX);
    };
    (0..3).for_each(|at| header_only(&mut guest, at));
    guest.send(from_guest(80, op::REQUEST), b"");
    let (mut program, _) = listener.accept().unwrap();
    assert_eq!(guest.rig.used(RX), Some((0, HEADER_BYTES as u32)), "the response");
    program.write_all(b"data").unwrap();
    guest.rig.host();
    assert_eq!(guest.rig.used(RX), None, "the data do not fit");
    // Another connection's response passes them by.
    guest.send(Header { src_port: 1, ..from_guest(80, op::REQUEST) }, b"");
    let _other = listener.accept().unwrap();
    assert_eq!(guest.rig.used(RX), Some((1, HEADER_BYTES as u32)));
    // The third chain is the next one, and too small. Its response uses it up; then there is room.
    guest.send(Header { src_port: 2, ..from_guest(80, op::REQUEST) }, b"");
    assert_eq!(guest.rig.used(RX), Some((2, HEADER_BYTES as u32)));
    guest.posted = 3;
    guest.post(1);
    assert_eq!(guest.expect(op::DATA).1, b"data");
    assert_eq!(guest.rig.fault(), None);
}

#[test]
fn connections_that_end_before_the_guest_takes_a_packet_leave_nothing() {
    let mut guest = Guest::without_buffers(0);
    let listener = guest.listen(80);
    for _ in 0..100 {
        guest.send(from_guest(80, op::REQUEST), b"");
        listener.accept().unwrap();
        guest.send(from_guest(80, op::RESET), b"");
        assert_eq!((guest.connections(), guest.rig.device.device().queued()), (0, 0));
    }
}
