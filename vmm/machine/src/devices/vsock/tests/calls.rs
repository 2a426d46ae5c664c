//! Connecting: guests to host programs, host programs to guests, and the line that begins a connection.

use super::*;

#[test]
fn a_guest_reaches_who_listens_on_the_ports_socket_and_both_talk() {
    for features in [0, EVENT_IDX] {
        let mut guest = Guest::with_features(features);
        let listener = guest.listen(80);
        let mut program = guest.connect(80, &listener);
        guest.send(data(80, b"ping"), b"ping");
        let mut heard = [0; 4];
        program.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"ping");
        program.write_all(b"pong!").unwrap();
        guest.rig.host();
        let (header, said) = guest.expect(op::DATA);
        assert_eq!(said, b"pong!");
        assert_eq!(
            (header.src_port, header.dst_port, header.buf_alloc, header.fwd_cnt),
            (80, GUEST_PORT, BUFFER_BYTES, 4)
        );
        assert!(guest.rig.bell.rung() > 0);
    }
}

#[test]
fn a_call_to_a_port_where_nobody_listens_is_refused() {
    let mut guest = Guest::new();
    guest.send(from_guest(81, op::REQUEST), b"");
    let (header, _) = guest.expect(op::RESET);
    assert_eq!((header.src_port, header.dst_port), (81, GUEST_PORT));
    assert_eq!(guest.connections(), 0);
}

#[test]
fn a_host_program_reaches_a_port_of_the_guest() {
    let mut guest = Guest::new();
    let (mut program, port) = guest.accept();
    program.write_all(b"hello").unwrap();
    guest.rig.host();
    let (header, said) = guest.expect(op::DATA);
    assert_eq!((header.src_port, header.dst_port, &said[..]), (port, 5000, &b"hello"[..]));
    let reply = Header { src_port: 5000, ..data(port, b"hi") };
    guest.send(reply, b"hi");
    let mut heard = [0; 2];
    program.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hi");
}

#[test]
fn what_a_host_program_says_too_early_reaches_the_guest_after_its_answer() {
    let mut guest = Guest::new();
    let _program = guest.program(b"CONNECT 5000\nearly");
    let (request, _) = guest.expect(op::REQUEST);
    guest.nothing_comes();
    guest.send(answer(&request, op::RESPONSE), b"");
    assert_eq!(guest.expect(op::DATA).1, b"early");
}

#[test]
fn a_greeting_may_come_byte_by_byte_and_nonsense_ends_it() {
    let mut guest = Guest::new();
    let mut program = UnixStream::connect(guest.path()).unwrap();
    for byte in b"CONNECT 4294967295\n" {
        guest.nothing_comes();
        program.write_all(&[*byte]).unwrap();
        guest.rig.host();
    }
    assert_eq!(guest.expect(op::REQUEST).0.dst_port, u32::MAX);
    for nonsense in [
        "\n",
        "CONNECT \n",
        "CONNECT +1\n",
        "CONNECT 4294967296\n",
        "connect 1\n",
        "CONNECT 1 \n",
        "CONNECT 00000000001",
    ] {
        let mut program = guest.program(nonsense.as_bytes());
        assert!(ended(&mut program), "{nonsense:?}");
        guest.nothing_comes();
    }
    assert_eq!(guest.connections(), 1);
}

#[test]
fn a_host_program_that_the_guest_refuses_reads_the_end() {
    let mut guest = Guest::new();
    let (mut program, request) = guest.called();
    guest.send(answer(&request, op::RESET), b"");
    assert!(ended(&mut program));
    assert_eq!(guest.connections(), 0);
}

#[test]
fn packets_for_nobody_are_refused_but_a_reset_is_not_and_strangers_are_not_heard() {
    let mut guest = Guest::new();
    guest.send(data(80, b"x"), b"x");
    guest.expect(op::RESET);
    guest.send(from_guest(80, op::RESET), b"");
    guest.nothing_comes();
    guest.send(Header { src_cid: 77, ..from_guest(80, op::REQUEST) }, b"");
    guest.nothing_comes();
    let _listener = guest.listen(80);
    for odd in [Header { kind: 2, ..from_guest(80, op::REQUEST) }, Header { op: 99, ..from_guest(80, 0) }] {
        guest.send(odd, b"");
        assert_eq!(guest.expect(op::RESET).0.kind, odd.kind);
    }
    assert_eq!(guest.rig.fault(), None);
}

#[test]
fn a_second_request_for_an_open_connection_ends_it() {
    let mut guest = Guest::new();
    let listener = guest.listen(80);
    let mut program = guest.connect(80, &listener);
    guest.send(from_guest(80, op::REQUEST), b"");
    guest.expect(op::RESET);
    assert!(ended(&mut program));
    assert_eq!(guest.connections(), 0);
}
