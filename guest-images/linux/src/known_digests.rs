//! Digests that this process has computed. A node checks an image when its VM is created and at each start, and many
//! VMs have the same image. It is read once for all of them.
//!
//! A file counts as unchanged while its inode, its size and its `ctime` are the same. The kernel sets `ctime` to its
//! clock at each write call and at the first write through a mapping, and no system call sets it to another time. That
//! clock moves in steps of some milliseconds. So a digest is kept only of a file that had not been written for a while
//! when it was read.

use crate::digest;
use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longer than any step of the kernel's clock, and than what file systems round times to.
const SETTLED: Duration = Duration::from_secs(3);
/// Digests that are kept. Few processes see more files.
const MOST: usize = 256;

static KNOWN: Known = Known::new();

/// Digest of a file that has just been opened.
pub(crate) fn of_open_file(file: &File) -> io::Result<String> {
    KNOWN.digest(file, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

struct Known(Mutex<BTreeMap<Version, String>>);

/// The contents of one file between two writes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    device: u64,
    inode: u64,
    size: u64,
    /// The time of the last change, since 1970.
    changed: Duration,
}

impl Known {
    const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    fn digest(&self, file: &File, now: Duration) -> io::Result<String> {
        let version = Version::of(&file.metadata()?);
        if let Some(known) = self.lock().get(&version) {
            return Ok(known.clone());
        }
        // Without the lock: a disk that does not answer keeps nobody from the files of others.
        let digest = digest::of_open_file(file)?;
        if version.changed + SETTLED < now && Version::of(&file.metadata()?) == version {
            let mut known = self.lock();
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(version, digest.clone());
        }
        Ok(digest)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Version, String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Version {
    fn of(metadata: &Metadata) -> Self {
        let seconds = u64::try_from(metadata.ctime()).unwrap_or(0);
        let nanos = u32::try_from(metadata.ctime_nsec()).unwrap_or(0);
        let changed = Duration::new(seconds, nanos);
        Self { device: metadata.dev(), inode: metadata.ino(), size: metadata.size(), changed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek as _, Write as _};

    /// A file, at its start, and a time at which its last change is long past.
    fn written(bytes: &[u8]) -> (File, Duration) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        let later = Version::of(&file.metadata().unwrap()).changed + 2 * SETTLED;
        (file, later)
    }

    #[test]
    fn a_file_is_read_once_until_it_is_written() {
        let (mut file, later) = written(b"abc");
        let known = Known::new();
        let first = known.digest(&file, later).unwrap();
        assert_eq!(first, digest::of_bytes(b"abc"));
        // It is at its end: nothing could be read any more.
        assert_eq!(known.digest(&file, later).unwrap(), first);
        file.write_all(b"def").unwrap();
        file.rewind().unwrap();
        assert_eq!(known.digest(&file, later).unwrap(), digest::of_bytes(b"abcdef"));
    }

    #[test]
    fn a_file_that_has_just_been_written_is_read_each_time() {
        let (file, later) = written(b"abc");
        let known = Known::new();
        let now = later - 2 * SETTLED;
        assert_eq!(known.digest(&file, now).unwrap(), digest::of_bytes(b"abc"));
        assert_eq!(known.digest(&file, now).unwrap(), digest::of_bytes(b""), "from its end");
    }

    #[test]
    fn not_more_than_so_many_are_kept() {
        let known = Known::new();
        for size in 0..=MOST {
            let (file, later) = written(&vec![0; size]);
            known.digest(&file, later).unwrap();
            assert!(known.lock().len() <= MOST);
        }
    }
}
