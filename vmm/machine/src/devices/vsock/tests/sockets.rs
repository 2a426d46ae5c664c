//! The unix sockets on the host's side.

use std::os::unix::fs::{MetadataExt, symlink};

use super::table::{CONNECTIONS_MAX, GREETINGS_MAX};
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
fn a_guests_connection_reaches_no_other_guest() {
    let mut guest = Guest::new();
    let other = HostSocket::open(&guest.folder.path().join("sock_81")).unwrap();
    guest.send(from_guest(81, op::REQUEST), b"");
    let (header, _) = guest.expect(op::RESET);
    assert_eq!((header.src_port, guest.connections()), (81, 0));
    assert_eq!(other.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody has called");
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

#[test]
fn a_guest_has_no_more_connections_than_its_share_of_descriptors() {
    let mut guest = Guest::new();
    let listener = guest.listen(80);
    let mut open = Vec::new();
    for port in 0..CONNECTIONS_MAX as u32 + 20 {
        guest.send(Header { src_port: port, ..from_guest(80, op::REQUEST) }, b"");
        let (answer, _) = guest.packet().unwrap();
        let admitted = (port as usize) < CONNECTIONS_MAX;
        assert_eq!(answer.op, if admitted { op::RESPONSE } else { op::RESET }, "{port}");
        if admitted {
            open.push(listener.accept().unwrap());
        }
    }
    assert_eq!(guest.connections(), CONNECTIONS_MAX);
}

/// Does this as another user, on a thread of its own. `None` if only root could.
#[allow(unsafe_code, reason = "a thread that becomes another user, without the process")]
fn as_another_user<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return None;
    }
    let become_another = || {
        // SAFETY: the call takes numbers and changes the credentials of this thread alone.
        let refused = unsafe { libc::syscall(libc::SYS_setresuid, 4242, 4242, 4242) };
        assert_eq!(refused, 0);
        act()
    };
    std::thread::scope(|scope| Some(scope.spawn(become_another).join().unwrap()))
}

fn allow_all(path: &std::path::Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn a_host_program_of_another_user_is_turned_away_whatever_the_mode_of_the_socket() {
    let mut guest = Guest::new();
    allow_all(guest.folder.path());
    allow_all(&guest.path());
    let path = guest.path();
    let Some(mut strangers) = as_another_user(|| {
        let call = |_| {
            let mut program = UnixStream::connect(&path).unwrap();
            program.write_all(b"CONNECT 5000\n").unwrap();
            program
        };
        // More than a turn lets in.
        (0..40).map(call).collect::<Vec<_>>()
    }) else {
        return;
    };
    guest.rig.host();
    guest.nothing_comes();
    assert_eq!(guest.connections(), 0);
    for stranger in &mut strangers {
        stranger.set_nonblocking(true).unwrap();
        // Closed: what it wrote was not read.
        assert!(!matches!(stranger.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock));
    }
    // The user's own programs are let in as before.
    guest.accept();
}

#[test]
fn a_guest_is_not_connected_to_the_socket_of_another_user() {
    let mut guest = Guest::new();
    allow_all(guest.folder.path());
    let path = guest.folder.path().join("sock_81");
    let Some(listener) = as_another_user(|| UnixListener::bind(&path).unwrap()) else { return };
    allow_all(&path);
    guest.send(from_guest(81, op::REQUEST), b"");
    let (header, _) = guest.expect(op::RESET);
    assert_eq!((header.src_port, guest.connections()), (81, 0));
    drop(listener);
    std::fs::remove_file(&path).unwrap();
    let own = guest.listen(81);
    guest.connect(81, &own);
}
