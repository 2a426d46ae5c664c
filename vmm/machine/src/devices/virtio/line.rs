//! A device's interrupt line: interrupt status, the request for a reset, and the notification of the VM.
//!
//! It is shared by the transport, by which the guest reads and acknowledges interrupts, and the threads that finish
//! work for the device. It holds no lock while it notifies.

use std::fmt;
use std::sync::{Arc, OnceLock};

use virtio_bindings::virtio_mmio::{VIRTIO_MMIO_INT_CONFIG, VIRTIO_MMIO_INT_VRING};

use super::Fault;
use super::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Tells a VM that one of its devices has something for it. May be called from any thread, also from one that runs a
/// vCPU of another VM. Must not call back into the device.
pub trait Notify: Send + Sync {
    /// Delivers a device event to this VM. A blocked vCPU wakes up; a running vCPU finds the event at its next idle.
    fn notify(&self);
}

/// Receives a message for the owner of the VM when a device was turned off.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// Interrupt state of one device.
pub struct Line {
    /// Bits that the guest has not acknowledged. Release when set, acquire when read: what was written to guest memory
    /// before the bit is visible to a guest that has seen the bit.
    pending: AtomicU32,
    /// The device is off until the driver resets it. Release in `fault`, acquire in `needs_reset`.
    needs_reset: AtomicBool,
    faults: AtomicU64,
    first_fault: OnceLock<Fault>,
    notify: Arc<dyn Notify>,
    /// The device's name, and the receiver of the message about its first fault.
    voice: Option<(String, Tell)>,
}

impl Line {
    /// A line without pending interrupts that notifies `notify`. To avoid a cycle, `notify` must not own the device.
    pub fn new(notify: Arc<dyn Notify>) -> Self {
        Self {
            pending: AtomicU32::new(0),
            needs_reset: AtomicBool::new(false),
            faults: AtomicU64::new(0),
            first_fault: OnceLock::new(),
            notify,
            voice: None,
        }
    }

    /// Like [`new`](Self::new). `tell` receives a message about the first fault of the device, which is called `name`.
    pub fn named(notify: Arc<dyn Notify>, name: String, tell: Tell) -> Self {
        Self { voice: Some((name, tell)), ..Self::new(notify) }
    }

    /// Interrupts the guest because buffers were used.
    pub fn used_buffers(&self) {
        self.raise(VIRTIO_MMIO_INT_VRING);
    }

    /// Turns the device off until the next reset, keeps the reason and interrupts the guest.
    pub fn fault(&self, fault: Fault) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        // Only the first fault is kept and reported. Later ones are mostly its consequence, and a guest could make
        // millions.
        let first = self.first_fault.set(fault).is_ok();
        if let (true, Some((name, tell)), Some(fault)) = (first, &self.voice, self.first_fault()) {
            tell(&format!("{name}: turned off until its driver resets it: {}", with_causes(fault)));
        }
        self.needs_reset.store(true, Ordering::Release);
        self.raise(VIRTIO_MMIO_INT_CONFIG);
    }

    /// Whether the device is off because of a fault.
    pub fn needs_reset(&self) -> bool {
        self.needs_reset.load(Ordering::Acquire)
    }

    /// Faults since the device was made; resets do not clear the count.
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// The first fault since the device was made.
    pub fn first_fault(&self) -> Option<&Fault> {
        self.first_fault.get()
    }

    pub(super) fn pending(&self) -> u32 {
        self.pending.load(Ordering::Acquire)
    }

    pub(super) fn acknowledge(&self, bits: u32) {
        self.pending.fetch_and(!bits, Ordering::AcqRel);
    }

    pub(super) fn reset(&self) {
        self.pending.store(0, Ordering::Release);
        self.needs_reset.store(false, Ordering::Release);
    }

    fn raise(&self, bit: u32) {
        self.pending.fetch_or(bit, Ordering::AcqRel);
        self.notify.notify();
    }
}

/// An error and its causes, in one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("pending", &self.pending())
            .field("needs_reset", &self.needs_reset())
            .field("faults", &self.faults())
            .field("first_fault", &self.first_fault())
            .finish_non_exhaustive()
    }
}
