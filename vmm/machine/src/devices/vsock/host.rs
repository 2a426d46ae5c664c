//! The unix sockets at the host's side: the one that stile listens on, and those that it connects to; or one whose other end
//! is in this process.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Longest path of a unix socket (units: bytes); `sun_path` with its NUL.
const PATH_MAX: usize = 107;
/// What a port adds to the path at most: `_4294967295` (units: bytes).
const PORT_SUFFIX: usize = 11;

/// Why a path cannot be a VM's socket.
#[derive(Debug, thiserror::Error)]
pub enum VsockError {
    /// No room for it and a port's number in a socket's address.
    #[error("the socket path {} has {} bytes", path.display(), path.as_os_str().len())]
    TooLong {
        /// The path.
        path: PathBuf,
    },
    /// Something else is there.
    #[error("{} is there and is no socket", path.display())]
    Taken {
        /// The path.
        path: PathBuf,
    },
    /// Somebody listens there.
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
    /// What the user can do about it.
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

/// Where a guest's connections go, and where they come from.
#[derive(Debug)]
pub struct HostSocket(Side);

#[derive(Debug)]
enum Side {
    /// The unix socket that host programs connect to, and beside it those that they listen on. It is gone when this is
    /// dropped.
    Path { path: PathBuf, listener: UnixListener },
    /// Nobody but the guest's first connection to this port, which has this end.
    Inside { port: u32, end: Option<UnixStream> },
}

impl HostSocket {
    /// Listens on `path`; a socket that nobody listens on any more is replaced.
    pub fn open(path: &Path) -> Result<Self, VsockError> {
        Self::check(path)?;
        let unbound = |source| VsockError::Bind { path: path.to_owned(), source };
        match UnixStream::connect(path) {
            Ok(_) => return Err(VsockError::InUse { path: path.to_owned() }),
            // Left by a monitor that was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(unbound)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(unbound(error)),
        }
        let listener = UnixListener::bind(path).map_err(unbound)?;
        let socket = Side::Path { path: path.to_owned(), listener };
        if let Side::Path { listener, .. } = &socket {
            listener.set_nonblocking(true).map_err(unbound)?;
        }
        Ok(Self(socket))
    }

    /// The guest's first connection to this port reaches who has the other end, which is returned; no path leads there.
    pub fn inside(port: u32) -> io::Result<(Self, UnixStream)> {
        let (end, other) = UnixStream::pair()?;
        end.set_nonblocking(true)?;
        Ok((Self(Side::Inside { port, end: Some(end) }), other))
    }

    /// Finds what would keep [`open`](Self::open) from listening there, but for who does so at the moment.
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

    /// The next host program that has connected.
    pub(super) fn accept(&self) -> io::Result<UnixStream> {
        let Side::Path { listener, .. } = &self.0 else { return Err(io::ErrorKind::WouldBlock.into()) };
        let (stream, _) = listener.accept()?;
        stream.set_nonblocking(true)?;
        Ok(stream)
    }

    /// What tells that somebody has connected, where anybody can.
    pub(super) fn listener(&self) -> Option<RawFd> {
        match &self.0 {
            Side::Path { listener, .. } => Some(listener.as_raw_fd()),
            Side::Inside { .. } => None,
        }
    }

    /// Connects to whoever listens for the guest's connections to `port`. Does not wait: who has as many callers in front
    /// of the door as its queue holds counts as not there.
    pub(super) fn connect(&mut self, port: u32) -> io::Result<UnixStream> {
        let path = match &mut self.0 {
            Side::Path { path, .. } => path,
            Side::Inside { port: own, end } => {
                let end = if *own == port { end.take() } else { None };
                return end.ok_or_else(|| io::ErrorKind::ConnectionRefused.into());
            }
        };
        let mut path = OsString::from(&*path);
        path.push(format!("_{port}"));
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        connect(&socket, &SocketAddrUnix::new(path.as_os_str())?)?;
        Ok(socket.into())
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if let Self::Path { path, .. } = self {
            let _ = fs::remove_file(path);
        }
    }
}
