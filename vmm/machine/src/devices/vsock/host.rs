//! The host's side of the sockets: the unix socket on which stile listens, and those to which it connects; or one
//! socket with its other end in this process.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, Mode, OFlags, fchmod, fstat, open};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with};

/// Longest path of a unix socket (units: bytes); `sun_path` with its NUL.
const PATH_MAX: usize = 107;
/// Longest suffix that a port adds to the path: `_4294967295` (units: bytes).
const PORT_SUFFIX: usize = 11;

/// Device and inode of each socket on which guests of this process are called. Guests do not call each other.
static GUESTS: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// Host programs that may wait to be accepted.
const BACKLOG: i32 = 128;

/// Why a path cannot be a VM's socket.
#[derive(Debug, thiserror::Error)]
pub enum VsockError {
    /// The path is too long for a socket's address, with room for a port's number.
    #[error("the socket path {} has {} bytes", path.display(), path.as_os_str().len())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// Something other than a socket exists at the path.
    #[error("{} is there and is no socket", path.display())]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// Another program listens there.
    #[error("somebody listens on {}", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The socket cannot be made.
    #[error("cannot listen on {}", path.display())]
    Bind {
        /// The path.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl VsockError {
    /// A remedy, for the user.
    pub fn remedy(&self) -> String {
        match self {
            Self::TooLong { .. } => {
                format!("accepted: at most {} bytes, so that `_PORT` can follow", PATH_MAX - PORT_SUFFIX)
            }
            Self::Taken { .. } => "take another path, or move that file away".into(),
            Self::InUse { .. } => "give each VM a path of its own; is that VM running already?".into(),
            Self::Bind { .. } => {
                "the folder must exist, and the user who runs stile must be allowed to write it".into()
            }
        }
    }
}

/// Where a guest's connections go, and where connections to the guest come from.
#[derive(Debug)]
pub struct HostSocket(Side);

#[derive(Debug)]
enum Side {
    /// The unix socket to which host programs connect. Beside it are the sockets on which they listen. It is removed
    /// when this is dropped.
    Path { path: PathBuf, listener: UnixListener, user: u32, entry: (u64, u64) },
    /// Only the guest's first connection to this port, which gets this end.
    Inside { port: u32, end: Option<UnixStream> },
}

impl HostSocket {
    /// Listens on `path`. Replaces a socket on which no program listens any more.
    pub fn open(path: &Path) -> Result<Self, VsockError> {
        Self::check(path)?;
        let unbound = |source| VsockError::Bind { path: path.to_owned(), source };
        match UnixStream::connect(path) {
            Ok(_) => return Err(VsockError::InUse { path: path.to_owned() }),
            // A monitor that was killed left it.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(unbound)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unbound(error)),
        }
        let listener = listen_privately(path).map_err(unbound)?;
        let user = rustix::process::geteuid().as_raw();
        let made = fs::symlink_metadata(path).and_then(|there| {
            listener.set_nonblocking(true)?;
            Ok((there.dev(), there.ino()))
        });
        let entry = made.map_err(|e| {
            let _ = fs::remove_file(path);
            unbound(e)
        })?;
        guests().insert(entry);
        Ok(Self(Side::Path { path: path.to_owned(), listener, user, entry }))
    }

    /// Returns the end of a pair. The guest's first connection to `port` gets the other end. There is no path.
    pub fn inside(port: u32) -> io::Result<(Self, UnixStream)> {
        let (end, other) = UnixStream::pair()?;
        end.set_nonblocking(true)?;
        Ok((Self(Side::Inside { port, end: Some(end) }), other))
    }

    /// Finds what would make [`open`](Self::open) fail, except for another program that listens there at present.
    pub fn check(path: &Path) -> Result<(), VsockError> {
        if path.as_os_str().len() > PATH_MAX - PORT_SUFFIX {
            return Err(VsockError::TooLong { path: path.to_owned() });
        }
        match fs::symlink_metadata(path) {
            Ok(there) if !there.file_type().is_socket() => Err(VsockError::Taken { path: path.to_owned() }),
            Ok(_) => Ok(()),
            Err(_) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let found = fs::metadata(folder).and_then(|folder| match folder.is_dir() {
                    true => Ok(()),
                    false => Err(io::ErrorKind::NotADirectory.into()),
                });
                found.map_err(|source| VsockError::Bind { path: path.to_owned(), source })
            }
        }
    }

    /// Whether sockets of the host are connected to it.
    pub fn connects(&self) -> bool {
        matches!(self.0, Side::Path { .. })
    }

    /// The next host program that has connected, if any. That of another user is turned away, with
    /// [`PermissionDenied`](io::ErrorKind::PermissionDenied).
    pub(super) fn accept(&self) -> io::Result<UnixStream> {
        let Side::Path { listener, user, .. } = &self.0 else { return Err(io::ErrorKind::WouldBlock.into()) };
        let (stream, _) = listener.accept()?;
        check_user(&stream, *user)?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// The descriptor that polls readable when a program has connected; `None` if there is no path.
    pub(super) fn listener(&self) -> Option<RawFd> {
        match &self.0 {
            Side::Path { listener, .. } => Some(listener.as_raw_fd()),
            Side::Inside { .. } => None,
        }
    }

    /// Connects to the program that listens for the guest's connections to `port`. Does not wait: a program with a full
    /// queue of callers counts as absent, and so does that of another user, and another guest.
    pub(super) fn connect(&mut self, port: u32) -> io::Result<UnixStream> {
        let (path, user) = match &mut self.0 {
            Side::Path { path, user, .. } => (path, *user),
            Side::Inside { port: own, end } => {
                let end = if *own == port { end.take() } else { None };
                return end.ok_or_else(|| io::ErrorKind::ConnectionRefused.into());
            }
        };
        let mut path = OsString::from(&*path);
        path.push(format!("_{port}"));
        // A link could lead the guest to any service of this host. What was found to be a socket is connected to by its
        // descriptor, so that nobody can put a link in its place in between.
        let found = open(path.as_os_str(), OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let there = fstat(&found)?;
        let is_guests = guests().contains(&(there.st_dev, there.st_ino));
        if is_guests || FileType::from_raw_mode(there.st_mode) != FileType::Socket {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(format!("/proc/self/fd/{}", found.as_raw_fd()))?)?;
        let stream = UnixStream::from(socket);
        check_user(&stream, user)?;
        Ok(stream)
    }
}

fn guests() -> MutexGuard<'static, BTreeSet<(u64, u64)>> {
    GUESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Refuses a peer of another user. The mode of a socket's path may have been changed, and its folder may be others' to
/// write.
fn check_user(stream: &UnixStream, user: u32) -> io::Result<()> {
    match is_trusted(user_of_peer(stream)?, user) {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
    }
}

/// Whether a program of this user may speak to a guest of that one: its own programs and root's.
fn is_trusted(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

/// The user who connected or who listens, at the time of that.
#[allow(unsafe_code, reason = "rustix has no process id 0 in it, which the kernel gives for peers of elsewhere")]
fn user_of_peer(stream: &UnixStream) -> io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let at = (&raw mut peer).cast();
    // SAFETY: the kernel writes at most `length` bytes to `peer`, of which all values are valid.
    let refused = unsafe { libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, at, &mut length) };
    if refused == 0 { Ok(peer.uid) } else { Err(io::Error::last_os_error()) }
}

/// A socket at `path` to which only the user of this process can connect.
fn listen_privately(path: &Path) -> io::Result<UnixListener> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The path gets the mode of the socket when it is bound.
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Self::Path { path, entry, .. } = self {
            guests().remove(entry);
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_user_and_root_are_trusted() {
        for (peer, own, trusted) in
            [(1000, 1000, true), (0, 1000, true), (0, 0, true), (1001, 1000, false), (1000, 0, false)]
        {
            assert_eq!(is_trusted(peer, own), trusted, "{peer}, {own}");
        }
        // A peer of a user whom this namespace does not know.
        assert!(!is_trusted(65534, 1000));
        let (one, _other) = UnixStream::pair().unwrap();
        assert_eq!(user_of_peer(&one).unwrap(), rustix::process::geteuid().as_raw());
    }
}
