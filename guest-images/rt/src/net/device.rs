//! Where a guest's network device is.
#![allow(unsafe_code, reason = "the device's registers lie at an address that the monitor tells")]

use core::ptr::NonNull;

use virtio_drivers::transport::mmio::MmioTransport;

use super::{DriverError, NetError};
use crate::Boot;

/// Size of the device's register window (units: bytes).
const WINDOW_BYTES: usize = 0x1000;

/// The device that the boot page names. Called once: the driver takes the device over from any earlier program.
pub fn device(boot: Boot) -> Result<MmioTransport<'static>, NetError> {
    let address = boot.device_mmio().and_then(|address| NonNull::new(address as *mut _));
    let header = address.ok_or(NetError::Driver(DriverError::NotANetwork))?;
    // SAFETY: the monitor maps one window of registers at this page-aligned address for the life of the VM.
    unsafe { MmioTransport::new(header, WINDOW_BYTES) }.map_err(|_| NetError::Driver(DriverError::NotANetwork))
}
