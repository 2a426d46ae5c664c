//! The interrupt line of a device of a Linux guest, as the device sees it.
//!
//! It ends at an event that KVM watches (an irqfd), or at an interrupt controller of this process. The VM decides that
//! once, before the guest runs.

use super::Notify;
use super::worker::event;
use std::io;
use std::sync::{Arc, OnceLock};
use vmm_sys_util::eventfd::EventFd;

/// An interrupt line.
pub struct Interrupt {
    event: EventFd,
    controller: OnceLock<Arc<dyn Notify>>,
}

impl Interrupt {
    /// A line that ends at an event.
    pub fn new() -> io::Result<Self> {
        Ok(Self { event: event()?, controller: OnceLock::new() })
    }

    /// The event that an interrupt rings.
    pub fn event(&self) -> &EventFd {
        &self.event
    }

    /// Lets the line end at this controller from now on. Only the first call counts.
    pub fn lead_to(&self, controller: Arc<dyn Notify>) {
        let _ = self.controller.set(controller);
    }
}

impl Notify for Interrupt {
    fn notify(&self) {
        match self.controller.get() {
            Some(controller) => controller.notify(),
            // This fails only when the counter is full, and then the event has been rung.
            None => drop(self.event.write(1)),
        }
    }
}

impl std::fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupt").finish_non_exhaustive()
    }
}
