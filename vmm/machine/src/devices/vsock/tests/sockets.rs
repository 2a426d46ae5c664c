//! The unix sockets on the host's side.

use std::os::unix::fs::{MetadataExt, symlink};

use super::table::GREETINGS_MAX;
use super::*;

#[test]
fn a_socket_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sock");
    drop(UnixListener::bind(&path).unwrap());
    let socket = HostSocket::open(&path).unwrap();
    assert!(matches!(HostSocket::open(&path), Err(VsockError::InUse { .. })));
    drop(socket);
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(HostSocket::open(&path), Err(VsockError::Taken { .. })));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    symlink(&path, folder.path().join("link")).unwrap();
    assert!(matches!(HostSocket::check(&folder.path().join("link")), Err(VsockError::Taken { .. })));
    assert!(matches!(HostSocket::check(&folder.path().join("none/sock")), Err(VsockError::Bind { .. })));
    assert!(matches!(HostSocket::check(&folder.path().join("s".repeat(100))), Err(VsockError::TooLong { .. })));
}

#[test]
fn a_socket_within_the_process_takes_one_connection_to_its_port_and_nobody_else() {
    let (mut socket, mut other) = HostSocket::inside(7700).unwrap();
    assert!(socket.listener().is_none());
    assert!(socket.connect(7701).is_err());
    let mut end = socket.connect(7700).unwrap();
    assert!(socket.connect(7700).is_err());
    end.write_all(b"hello").unwrap();
    drop(end);
    let mut heard = String::new();
    other.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "hello");
}

#[test]
fn a_socket_is_its_owners_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("sock");
    let _socket = HostSocket::open(&path).unwrap();
    assert_eq!(std::fs::symlink_metadata(&path).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_guests_connection_follows_no_link() {
    let mut guest = Guest::new();
    let elsewhere = TempDir::new().unwrap();
    let _service = UnixListener::bind(elsewhere.path().join("service")).unwrap();
    symlink(elsewhere.path().join("service"), guest.folder.path().join("sock_81")).unwrap();
    guest.send(from_guest(81, op::REQUEST), b"");
    let (header, _) = guest.expect(op::RESET);
    assert_eq!((header.src_port, guest.connections()), (81, 0));
}

#[test]
fn host_programs_that_say_nothing_give_way_to_those_that_come_later() {
    let mut guest = Guest::new();
    let silent: Vec<_> = (0..100).map(|_| guest.program(b"")).collect();
    assert!(guest.connections() <= GREETINGS_MAX, "{}", guest.connections());
    let (mut late, _) = guest.accept();
    late.write_all(b"hello").unwrap();
    guest.rig.host();
    assert_eq!(guest.expect(op::DATA).1, b"hello");
    drop(silent);
}
