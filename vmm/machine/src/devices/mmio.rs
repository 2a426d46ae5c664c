//! A device behind memory-mapped registers, as the vCPUs' exits reach it.
//!
//! No access takes longer than one bounded turn of work, and none waits for another thread's turn. What is left to do
//! is told to the vCPU, which lets the scheduler decide before it goes on ([`PendingWrite`], and `unikernel/debt.rs`).

use crate::devices::virtio::Progress;
use stile_sched::time::monotonic;
use stile_sched::{Nanos, Time};

/// Why a device could not be made.
pub type DeviceError = Box<dyn std::error::Error + Send + Sync>;

/// The registers of a device. Offsets count from the start of its window. May be called from several threads at once.
pub trait MmioDevice: Send + Sync {
    /// Handles a guest's read at `offset`.
    fn read(&self, offset: u64, data: &mut [u8]);
    /// Handles a guest's write at `offset`. Does at most one turn of the work that the write causes.
    fn write(&self, offset: u64, data: &[u8]) -> Written;
    /// Does one turn of the work that waits in a queue.
    fn notify(&self, queue: u16) -> Progress;
}

/// What became of a write to a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Written {
    /// It is done.
    Done,
    /// It is done, and there is more work in this queue: [`MmioDevice::notify`] does the next turn.
    More(u16),
    /// Nothing was done: the write stops work of which another thread does a turn. It has to be made again later.
    Busy,
}

/// Time between two tries of a write to a busy device. The vCPU has no pCPU meanwhile. A turn takes less, unless the
/// host is slow.
const AGAIN: Nanos = Nanos::from_micros(500);

/// A vCPU's write to a register that was busy. The guest is not entered before it is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingWrite {
    address: u64,
    data: [u8; 8],
    length: usize,
}

impl PendingWrite {
    /// A write of at most 8 bytes, as KVM tells it.
    pub(crate) fn new(address: u64, written: &[u8]) -> Self {
        let mut data = [0; 8];
        let length = written.len().min(data.len());
        data[..length].copy_from_slice(&written[..length]);
        Self { address, data, length }
    }

    /// The guest-physical address.
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    /// What is written.
    pub(crate) fn data(&self) -> &[u8] {
        &self.data[..self.length]
    }

    /// Until when the vCPU idles before it tries again.
    pub(crate) fn again() -> Time {
        monotonic() + AGAIN
    }
}
