//! Panics of the monitor while it works for a vCPU: they end the VM of that vCPU, and the thread lives on.
//!
//! Another VM's device may have been in use at that moment, when a frame was delivered to it. Its state is as sound as
//! the point of the panic left it. Locks of the standard library are entered all the same, and parking_lot's do not
//! notice.

use super::FaultKind;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a step of a vCPU. A panic becomes a fault, which ends the VM.
pub(crate) fn caught<T>(step: impl FnOnce() -> T) -> Result<T, FaultKind> {
    // Unwind-safe: after a panic nothing of the vCPU is used but what ends it.
    catch_unwind(AssertUnwindSafe(step)).map_err(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        FaultKind::Monitor(text.unwrap_or("without a message").to_owned())
    })
}
