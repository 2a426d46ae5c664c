//! A tap interface of the host, by its name.
//!
//! stile attaches to a tap that exists. The administrator of the host makes taps, and gives them addresses and routes.
//! Frames are plain Ethernet: no header of the host's, no offload.

#![allow(unsafe_code, reason = "attaching to a tap is an ioctl that the standard library does not have")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use vmm_sys_util::ioctl::{ioctl_with_mut_ref, ioctl_with_val};
use vmm_sys_util::ioctl_iow_nr;

mod device;

pub use device::{TapDevice, TapPort};

const DEVICE: &str = "/dev/net/tun";
/// Longest name of an interface (units: bytes); IFNAMSIZ with its NUL.
const NAME_MAX: usize = libc::IFNAMSIZ - 1;
/// Offset of the flags in `ifreq`, and size of `ifreq` (units: bytes).
const FLAGS_AT: usize = libc::IFNAMSIZ;
const IFREQ_BYTES: usize = 40;

ioctl_iow_nr!(TUNSETIFF, 0x54, 202, libc::c_int);
ioctl_iow_nr!(TUNSETOFFLOAD, 0x54, 208, libc::c_uint);

/// Why a tap cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// There is no interface of this name.
    #[error("the tap `{name}` does not exist")]
    Missing {
        /// Its name.
        name: String,
    },
    /// The interface is not a tap.
    #[error("`{name}` is a network interface, but not a tap")]
    Kind {
        /// Its name.
        name: String,
    },
    /// The host has no taps, or this user may not open them.
    #[error("cannot open {DEVICE}")]
    Device(#[source] io::Error),
    /// The kernel refuses to attach.
    #[error("cannot attach to the tap `{name}`")]
    Attach {
        /// Its name.
        name: String,
        /// Why it refuses.
        #[source]
        source: io::Error,
    },
}

impl TapError {
    /// A remedy, for the user.
    pub fn remedy(&self) -> String {
        match self {
            Self::Missing { name } => {
                format!("make it: ip tuntap add dev {name} mode tap user $USER && ip link set {name} up")
            }
            Self::Kind { name } => format!("take another name: ip tuntap add dev NAME mode tap; `{name}` is taken"),
            Self::Device(source) if source.kind() == io::ErrorKind::NotFound => "modprobe tun".into(),
            Self::Device(_) => format!("the user who runs stile must be allowed to read and write {DEVICE}"),
            Self::Attach { name, source } => match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => {
                    format!("it belongs to another user: make it with `ip tuntap add dev {name} mode tap user $USER`")
                }
                Some(libc::EBUSY) => "it is in use: give each VM a tap of its own".into(),
                Some(libc::EINVAL) => {
                    format!("it was made with options that stile does not use: ip tuntap add dev {name} mode tap")
                }
                _ => format!("see `ip -d link show {name}`"),
            },
        }
    }
}

/// An attached tap.
#[derive(Debug)]
pub struct Tap {
    name: String,
    file: File,
}

impl Tap {
    /// Attaches to the tap `name`.
    pub fn open(name: &str) -> Result<Self, TapError> {
        Self::check(name)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE);
        let file = file.map_err(TapError::Device)?;
        let refused = |source| TapError::Attach { name: name.to_owned(), source };
        attach(&file, name).map_err(refused)?;
        Ok(Self { name: name.to_owned(), file })
    }

    /// The name of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Finds what would make [`open`](Self::open) fail, except for permissions and present use by another program.
    pub fn check(name: &str) -> Result<(), TapError> {
        let interface = Path::new("/sys/class/net").join(name);
        // A name that is not valid must not lead out of the folder.
        if !Self::is_name(name) || !interface.exists() {
            return Err(TapError::Missing { name: name.to_owned() });
        }
        let flags = fs::read_to_string(interface.join("tun_flags")).ok();
        let flags = flags.and_then(|text| u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok());
        match flags {
            Some(flags) if flags & libc::IFF_TAP as u32 != 0 => Ok(()),
            _ => Err(TapError::Kind { name: name.to_owned() }),
        }
    }

    /// Whether an interface can have this name.
    pub fn is_name(name: &str) -> bool {
        let allowed = |byte: u8| byte.is_ascii_graphic() && !b"/:%".contains(&byte);
        (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(allowed) && name != "." && name != ".."
    }

    /// Takes the next frame that the host sent. Returns its length, or `None` if there is no frame. A frame that is
    /// longer than the buffer is cut off.
    pub(super) fn receive(&self, frame: &mut [u8]) -> Option<usize> {
        loop {
            match (&self.file).read(frame) {
                Ok(length) => return Some(length),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // There is no frame; or the interface is down or gone, and the network with it.
                Err(_) => return None,
            }
        }
    }

    /// Passes a frame to the host. Returns false if the host does not take it.
    pub(super) fn send(&self, frame: &[u8]) -> bool {
        (&self.file).write(frame).is_ok_and(|sent| sent == frame.len())
    }
}

impl AsRawFd for Tap {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

fn attach(file: &File, name: &str) -> io::Result<()> {
    let mut request = [0u8; IFREQ_BYTES];
    request[..name.len()].copy_from_slice(name.as_bytes());
    let flags = (libc::IFF_TAP | libc::IFF_NO_PI) as u16;
    request[FLAGS_AT..][..2].copy_from_slice(&flags.to_ne_bytes());
    // SAFETY: the kernel reads and writes one ifreq, and `request` has that size.
    done(unsafe { ioctl_with_mut_ref(file, TUNSETIFF(), &mut request) })?;
    // SAFETY: the argument is a number, not an address.
    done(unsafe { ioctl_with_val(file, TUNSETOFFLOAD(), 0) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests;
