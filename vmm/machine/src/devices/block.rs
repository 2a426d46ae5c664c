//! Disks: a raw file (or a host's block device) behind virtio-blk (virtio 1.2, section 5.2).
//!
//! Reads, writes, flush (fdatasync), discard and write-zeroes; one queue; no image format, no cache of its own. What a
//! guest has flushed is on the host's storage, whatever happens to the monitor.
//!
//! The file is locked (flock) for as long as the disk is open: alone if the guest may write, with other readers if not.
//! Its size is taken when it is opened and must be a whole number of sectors: cutting the rest off or inventing one would
//! change data behind the user's back.

mod device;
mod disk;
mod request;

pub use device::BlockDevice;
pub use disk::{Disk, DiskError, SECTOR_BYTES};

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
