//! The file behind a disk: opening it, checking it, locking it, and working on its sectors.
//!
//! Every position is checked against the disk's size before it gets here.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, OFlags, fallocate, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// Unit of virtio-blk (units: bytes).
pub const SECTOR_BYTES: u64 = 512;
/// Zeros written at a time where the file system cannot zero a range (units: bytes).
const ZEROS: usize = 64 << 10;

/// Why a file cannot be a disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The file is missing, or cannot be opened.
    #[error("the disk {} cannot be opened", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Not a file or block device, but a directory, a pipe or the like.
    #[error("the disk {} is neither a file nor a block device", path.display())]
    Kind {
        /// The file.
        path: PathBuf,
    },
    /// The file is shorter than a sector.
    #[error("the disk {} is empty", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file ends with an incomplete sector.
    #[error("the disk {} has {bytes} bytes, not a whole number of {SECTOR_BYTES}-byte sectors", path.display())]
    Size {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Another program writes it, or reads it and the guest may write.
    #[error("the disk {} is in use by another VM or program", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file system refused the lock.
    #[error("the disk {} cannot be locked", path.display())]
    Lock {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

impl DiskError {
    /// A remedy, for the user.
    pub fn remedy(&self) -> String {
        match self {
            Self::Open { path, source } => match source.kind() {
                io::ErrorKind::NotFound if path.starts_with("/dev") => {
                    "check the path: the kernel makes what is below /dev, for the devices that there are".into()
                }
                io::ErrorKind::NotFound => {
                    format!("check the path, or make an empty disk: truncate -s 1G {}", path.display())
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "the user who runs stile must be allowed to write it, or to read it with `read_only = true`".into()
                }
                _ => "accepted: a raw disk image or a block device".into(),
            },
            Self::Kind { .. } => "accepted: a raw disk image or a block device".into(),
            Self::Empty { path } => format!("give it a size: truncate -s 1G {}", path.display()),
            Self::Size { path, .. } => {
                format!("to fill the last sector with zeros: truncate -s %{SECTOR_BYTES} {}", path.display())
            }
            Self::InUse { .. } => {
                "stop the other user, give each VM a copy, or let all only read it: `read_only = true`".into()
            }
            Self::Lock { .. } => "keep the disk on a file system that knows flock(2)".into(),
        }
    }
}

/// An open disk.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    file: File,
    sectors: u64,
    read_only: bool,
    id: String,
}

impl Disk {
    /// Opens and locks the file at `path`.
    pub fn open(path: &Path, read_only: bool) -> Result<Self, DiskError> {
        let (file, sectors) = examine(path, read_only)?;
        let locked = if read_only { file.try_lock_shared() } else { file.try_lock() };
        locked.map_err(|error| match error {
            TryLockError::WouldBlock => DiskError::InUse { path: path.to_owned() },
            TryLockError::Error(source) => DiskError::Lock { path: path.to_owned(), source },
        })?;
        let metadata = file.metadata().map_err(|source| DiskError::Open { path: path.to_owned(), source })?;
        let id = format!("{:x}-{:x}", metadata.dev(), metadata.ino());
        Ok(Self { path: path.to_owned(), file, sectors, read_only, id })
    }

    /// The path of its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finds what would make [`open`](Self::open) fail, except for present use by another program.
    pub fn check(path: &Path, read_only: bool) -> Result<(), DiskError> {
        examine(path, read_only).map(drop)
    }

    /// Its size (units: sectors).
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Whether writes are refused.
    pub fn read_only(&self) -> bool {
        self.read_only
    }

    /// Identifies the disk among all disks of this host: device and inode of the file.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn read(&self, offset: u64, data: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(data, offset)
    }

    pub(super) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, offset)
    }

    /// Waits until all that was written is on the host's storage.
    pub(super) fn flush(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Discards the contents of this range, if the file system can: the guest does not need them any more.
    pub(super) fn discard(&self, offset: u64, length: u64) -> io::Result<()> {
        match fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length) {
            // A guest's discard is advice, which a file system may be unable to follow.
            Err(Errno::OPNOTSUPP) => Ok(()),
            done => Ok(done?),
        }
    }

    /// Zeroes this range. `unmap` permits to free its storage.
    pub(super) fn write_zeroes(&self, offset: u64, length: u64, unmap: bool) -> io::Result<()> {
        let how = if unmap { FallocateFlags::PUNCH_HOLE } else { FallocateFlags::ZERO_RANGE };
        match fallocate(&self.file, how | FallocateFlags::KEEP_SIZE, offset, length) {
            Err(Errno::OPNOTSUPP) => self.write_zeroes_by_hand(offset, length),
            done => Ok(done?),
        }
    }

    fn write_zeroes_by_hand(&self, offset: u64, length: u64) -> io::Result<()> {
        let zeros = vec![0; ZEROS];
        let mut at = 0;
        while at < length {
            let part = (length - at).min(ZEROS as u64);
            self.write(offset + at, &zeros[..part as usize])?;
            at += part;
        }
        Ok(())
    }
}

/// Opens a file as a disk needs it and counts its sectors.
fn examine(path: &Path, read_only: bool) -> Result<(File, u64), DiskError> {
    let unfit = || DiskError::Kind { path: path.to_owned() };
    let unopened = |source: io::Error| match source.raw_os_error() {
        // A folder, or a socket.
        Some(libc::EISDIR | libc::ENXIO) => unfit(),
        _ => DiskError::Open { path: path.to_owned(), source },
    };
    // To open a pipe must not wait for a program at the other end, and a terminal must not become this process's.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let opened = OpenOptions::new().read(true).write(!read_only).custom_flags(flags).open(path);
    let mut file = opened.map_err(unopened)?;
    // What was opened is judged, and not what the path names now.
    let kind = file.metadata().map_err(unopened)?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(unfit());
    }
    let flags = fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags - OFlags::NONBLOCK));
    flags.map_err(|refused| unopened(refused.into()))?;
    // The metadata of a block device contain no size.
    let bytes = file.seek(SeekFrom::End(0)).map_err(unopened)?;
    match bytes {
        0 => Err(DiskError::Empty { path: path.to_owned() }),
        _ if !bytes.is_multiple_of(SECTOR_BYTES) => Err(DiskError::Size { path: path.to_owned(), bytes }),
        _ => Ok((file, bytes / SECTOR_BYTES)),
    }
}
