//! A device behind memory-mapped registers, as a vCPU sees it.

/// Why a device could not be made.
pub type DeviceError = Box<dyn std::error::Error + Send + Sync>;

/// Registers of a device, as a vCPU reads and writes them.
pub trait MmioDevice: Send + Sync {
    /// Reads at an offset.
    fn read(&self, offset: u64, data: &mut [u8]);
    /// Writes at an offset, and does the work it causes before it returns.
    fn write(&self, offset: u64, data: &[u8]);
    /// Does the work that waits in a queue, as a write of its number to the notification register does.
    fn notify(&self, queue: u16);
}
