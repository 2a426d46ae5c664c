//! A device behind memory-mapped registers, as the vCPUs' exits reach it.

/// Why a device could not be made.
pub type DeviceError = Box<dyn std::error::Error + Send + Sync>;

/// The registers of a device. Offsets count from the start of its window. May be called from several threads at once.
pub trait MmioDevice: Send + Sync {
    /// Handles a guest's read at `offset`.
    fn read(&self, offset: u64, data: &mut [u8]);
    /// Handles a guest's write at `offset`. Does the work that the write causes before it returns.
    fn write(&self, offset: u64, data: &[u8]);
    /// Does the work that waits in a queue, like a write of the queue's number to the notification register.
    fn notify(&self, queue: u16);
}
