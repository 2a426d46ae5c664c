//! How connections end: by the guest, by the program, one direction at a time.

use std::net::Shutdown;

use super::*;

#[test]
fn a_guest_that_closes_is_answered_when_the_program_has_everything() {
    let mut guest = Guest::new();
    let listener = guest.listen(80);
    let mut program = guest.connect(80, &listener);
    guest.send(data(80, b"last words"), b"last words");
    guest.send(Header { flags: 3, ..from_guest(80, op::SHUTDOWN) }, b"");
    guest.expect(op::RESET);
    let mut heard = Vec::new();
    program.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"last words");
    assert_eq!(guest.connections(), 0);
}

#[test]
fn a_guest_that_sends_no_more_still_receives() {
    let mut guest = Guest::new();
    let listener = guest.listen(80);
    let mut program = guest.connect(80, &listener);
    guest.send(Header { flags: 2, ..from_guest(80, op::SHUTDOWN) }, b"");
    let mut heard = Vec::new();
    program.read_to_end(&mut heard).unwrap();
    assert_eq!(heard, b"");
    program.write_all(b"answer").unwrap();
    guest.rig.host();
    assert_eq!(guest.expect(op::DATA).1, b"answer");
    // A guest that sends after it said that it would not breaks the rules.
    guest.send(data(80, b"x"), b"x");
    guest.expect(op::RESET);
}

#[test]
fn a_program_that_sends_no_more_still_hears_and_one_that_closes_ends_the_connection() {
    let mut guest = Guest::new();
    let listener = guest.listen(80);
    let mut program = guest.connect(80, &listener);
    program.write_all(b"bye").unwrap();
    program.shutdown(Shutdown::Write).unwrap();
    guest.rig.host();
    assert_eq!(guest.expect(op::DATA).1, b"bye");
    assert_eq!(guest.expect(op::SHUTDOWN).0.flags, 2);
    guest.send(data(80, b"you too"), b"you too");
    let mut heard = [0; 7];
    program.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"you too");
    drop(program);
    guest.rig.host();
    assert_eq!(guest.expect(op::SHUTDOWN).0.flags, 3);
    guest.send(from_guest(80, op::RESET), b"");
    assert_eq!(guest.connections(), 0);
    guest.nothing_comes();
}

#[test]
fn a_program_that_is_gone_before_the_guest_answers_is_taken_back() {
    let mut guest = Guest::new();
    let (program, request) = guest.called();
    drop(program);
    guest.rig.host();
    assert_eq!(guest.expect(op::RESET).0.src_port, request.src_port);
    // The late answer is dropped.
    guest.send(answer(&request, op::RESPONSE), b"");
    guest.expect(op::RESET);
    assert_eq!(guest.connections(), 0);
}
