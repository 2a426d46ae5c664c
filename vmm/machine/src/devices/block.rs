//! Disks: a raw file (or a host's block device) behind virtio-blk (virtio 1.2, section 5.2).
//!
//! It carries out reads, writes, flush (fdatasync), discard and write-zeroes, from one queue. There is no image format
//! and no cache of its own. What a guest has flushed is on the host's storage, whatever happens to the monitor.
//!
//! The file is locked (flock) for as long as the disk is open: exclusively if the guest may write, shared with other
//! readers if not. Its size is read when it is opened and must be a whole number of sectors. To cut the rest off, or to
//! fill up the last sector, would change data behind the user's back.

mod device;
mod disk;
mod request;

pub use device::BlockDevice;
pub use disk::{Disk, DiskError, SECTOR_BYTES};

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
