//! The unix sockets on the host's side.

use std::os::unix::fs::symlink;

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
