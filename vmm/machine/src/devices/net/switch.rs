//! An Ethernet switch without a thread: it forwards a frame on the sender's thread.
//!
//! A port's number decides its address, so the switch learns nothing. A frame whose source is not its port's own
//! address is refused: no guest can take another one's place. A port may be pinned to an IPv4 address as well (`pin`).
//! A frame goes to the port of its destination, or nowhere.
//! Frames for groups go to all other ports; each port may send a limited number of them (`flood`). It counts per port.
//! It does not queue frames (the receiver does), look at what is in those of other ports, or connect to the host.
//!
//! Invariant: the table lock is taken for writing only when a port is attached or detached, and is never held during
//! [`Sink::deliver`] or [`Sink::notify`].

pub(super) mod device;
mod flood;
mod pin;

use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use super::counters::Counters;
use super::{DropReason, Frame, PortNumber, PortStats};
use flood::FloodLimit;
use stile_sched::time::monotonic;

/// The receiver of a port's frames. Called from other ports' threads.
pub trait Sink: Send + Sync {
    /// Delivers a frame. Must not call the switch.
    fn deliver(&self, frame: &Frame) -> Delivery;
    /// Tells the receiver about the frames delivered so far.
    fn notify(&self);
}

/// What became of a frame at its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Delivery {
    /// The receiver has the frame, or will find it when it posts buffers. It need not be told.
    Quiet,
    /// The receiver has the frame and wants to be told.
    Notify,
    /// The frame was dropped.
    Dropped(DropReason),
}

/// A port cannot be attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The number is in use.
    #[error("switch port {0} is in use")]
    InUse(PortNumber),
}

/// The switch. Shared by all VMs on it.
#[derive(Default)]
pub struct Switch {
    table: RwLock<Table>,
    /// The IPv4 addresses of ports that are pinned to one.
    pins: Mutex<HashMap<PortNumber, Ipv4Addr>>,
    /// Sum of the counters of ports that were detached.
    retired: Mutex<PortStats>,
}

#[derive(Default)]
struct Table {
    /// The ports in the order of attachment. Behind an `Arc` so that a flood can walk the list without the lock.
    slots: Arc<[Arc<Slot>]>,
    by_number: HashMap<PortNumber, Arc<Slot>>,
}

struct Slot {
    number: PortNumber,
    /// The only IPv4 address that it may claim.
    pinned: Option<Ipv4Addr>,
    sink: Arc<dyn Sink>,
    counters: Counters,
    floods: FloodLimit,
}

/// One attached port, for its device. Dropping it detaches the port.
pub struct Port {
    switch: Arc<Switch>,
    slot: Arc<Slot>,
}

/// Receivers that have to be told about frames. A receiver of several frames in a row is told once, after the last one.
/// All receivers have been told when this is dropped.
#[derive(Default)]
pub struct Wakes(Option<Arc<Slot>>);

impl Switch {
    /// A switch without ports.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Pins a port that is not attached yet to an IPv4 address.
    pub fn pin(&self, number: PortNumber, address: Ipv4Addr) {
        self.pins.lock().insert(number, address);
    }

    /// Takes the pin of a port away that is not attached.
    pub fn unpin(&self, number: PortNumber) {
        self.pins.lock().remove(&number);
    }

    /// Attaches `sink` as port `number`.
    pub fn attach(self: &Arc<Self>, number: PortNumber, sink: Arc<dyn Sink>) -> Result<Port, AttachError> {
        let pinned = self.pins.lock().get(&number).copied();
        let slot =
            Arc::new(Slot { number, pinned, sink, counters: Counters::default(), floods: FloodLimit::default() });
        let mut table = self.table.write();
        if table.by_number.contains_key(&number) {
            return Err(AttachError::InUse(number));
        }
        table.by_number.insert(number, Arc::clone(&slot));
        table.slots = table.slots.iter().cloned().chain([Arc::clone(&slot)]).collect();
        drop(table);
        Ok(Port { switch: Arc::clone(self), slot })
    }

    /// Counters of every attached port, in the order of attachment.
    pub fn stats(&self) -> Vec<(PortNumber, PortStats)> {
        let slots = Arc::clone(&self.table.read().slots);
        slots.iter().map(|slot| (slot.number, slot.counters.read())).collect()
    }

    /// Sum over all ports that are or were attached.
    pub fn total(&self) -> PortStats {
        // Read first, so that a port that is detached meanwhile is counted at least once and never twice.
        let table = self.table.read();
        let mut total = *self.retired.lock();
        for slot in table.slots.iter() {
            total += slot.counters.read();
        }
        total
    }

    fn detach(&self, slot: &Arc<Slot>) {
        let mut table = self.table.write();
        table.slots = table.slots.iter().filter(|other| !Arc::ptr_eq(other, slot)).cloned().collect();
        table.by_number.remove(&slot.number);
        *self.retired.lock() += slot.counters.read();
    }

    /// The receivers of a frame: one port, all, or none.
    fn route(&self, frame: &Frame) -> Option<Route> {
        let destination = frame.destination();
        let table = self.table.read();
        if destination.is_group() {
            return Some(Route::Flood(Arc::clone(&table.slots)));
        }
        let to = PortNumber::with_mac(destination).and_then(|number| table.by_number.get(&number))?;
        Some(Route::One(Arc::clone(to)))
    }
}

enum Route {
    One(Arc<Slot>),
    Flood(Arc<[Arc<Slot>]>),
}

impl Port {
    /// Its number.
    pub fn number(&self) -> PortNumber {
        self.slot.number
    }

    /// Its counters.
    pub fn stats(&self) -> PortStats {
        self.slot.counters.read()
    }

    /// Sends a frame from this port. Returns to how many ports it was offered. The caller holds no device's lock.
    pub fn send(&self, frame: &Frame, wakes: &mut Wakes) -> usize {
        let is_own = |address| pin::comes_from(frame, address);
        if frame.source() != self.slot.number.mac() || !self.slot.pinned.is_none_or(is_own) {
            self.count_drop(DropReason::ForeignSource);
            return 0;
        }
        self.slot.counters.sent(frame.length());
        let reason = match self.switch.route(frame) {
            Some(Route::One(to)) if !Arc::ptr_eq(&to, &self.slot) => {
                match to.take(frame) {
                    Delivery::Quiet => {}
                    Delivery::Notify => wakes.add(to),
                    Delivery::Dropped(reason) => to.counters.dropped(reason),
                }
                return 1;
            }
            Some(Route::Flood(slots)) if self.slot.floods.admits(monotonic()) => {
                return self.flood(frame, &slots, wakes);
            }
            Some(Route::Flood(_)) => DropReason::FloodLimit,
            Some(Route::One(_)) | None => DropReason::NoPort,
        };
        self.count_drop(reason);
        0
    }

    /// Counts a frame that this port's device did not send.
    pub fn count_drop(&self, reason: DropReason) {
        self.slot.counters.dropped(reason);
    }

    fn flood(&self, frame: &Frame, slots: &[Arc<Slot>], wakes: &mut Wakes) -> usize {
        let (mut offered, mut others) = (0, slots.iter().filter(|to| !Arc::ptr_eq(to, &self.slot)).peekable());
        if others.peek().is_none() {
            self.count_drop(DropReason::NoPort);
        }
        for to in others {
            offered += 1;
            match to.take(frame) {
                // A guest without a driver does not miss a frame that was not for it alone.
                Delivery::Quiet | Delivery::Dropped(DropReason::ReceiverDown) => {}
                Delivery::Notify => wakes.add(Arc::clone(to)),
                Delivery::Dropped(reason) => to.counters.dropped(reason),
            }
        }
        offered
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.switch.detach(&self.slot);
    }
}

impl Slot {
    fn take(&self, frame: &Frame) -> Delivery {
        let delivery = self.sink.deliver(frame);
        if matches!(delivery, Delivery::Quiet | Delivery::Notify) {
            self.counters.received(frame.length());
        }
        delivery
    }
}

impl Wakes {
    /// No receiver to tell yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn add(&mut self, slot: Arc<Slot>) {
        if self.0.as_ref().is_some_and(|waiting| Arc::ptr_eq(waiting, &slot)) {
            return;
        }
        if let Some(before) = self.0.replace(slot) {
            before.sink.notify();
        }
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        if let Some(slot) = self.0.take() {
            slot.sink.notify();
        }
    }
}

impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Switch").field("ports", &self.stats()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("number", &self.number()).field("stats", &self.stats()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
