//! What the vCPUs of a unikernel share with each other and with whoever runs the VM, beside its [`VmStatus`].

use super::clock::TscClock;
use super::gate::Gate;
use super::layout::Layout;
use crate::devices::MmioDevice;
use crate::vm::VmStatus;
use crate::vm::console::{Console, Sink};
use std::mem::offset_of;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use stile_abi::{Queues, Steal};
use stile_sched::{Nanos, Presence};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vm_superio::serial::NoEvents;
use vm_superio::{Serial, Trigger};

/// A device and where it lies; its window is one page.
pub(super) struct Mapped {
    /// First address.
    pub base: u64,
    /// The device.
    pub device: Arc<dyn MmioDevice>,
}

/// Unikernel guests have no interrupt controller; they poll the serial port.
struct NoInterrupt;

impl Trigger for NoInterrupt {
    type E = std::convert::Infallible;
    fn trigger(&self) -> Result<(), Self::E> {
        Ok(())
    }
}

/// A running VM's shared part.
pub struct VmState {
    status: Arc<VmStatus>,
    layout: Layout,
    memory: GuestMemoryMmap,
    clock: TscClock,
    console: Mutex<Console>,
    serial: Mutex<Serial<NoInterrupt, NoEvents, Console>>,
    device: Option<Mapped>,
    gate: Gate,
    results: Mutex<Vec<(String, u64)>>,
}

impl VmState {
    pub(super) fn new(
        status: Arc<VmStatus>,
        layout: Layout,
        memory: GuestMemoryMmap,
        clock: TscClock,
        sink: Sink,
        device: Option<Mapped>,
    ) -> Self {
        let serial = Serial::new(NoInterrupt, Console::new(status.name(), sink.clone()));
        Self {
            layout,
            memory,
            clock,
            console: Mutex::new(Console::new(status.name(), sink)),
            status,
            serial: Mutex::new(serial),
            device,
            gate: Gate::default(),
            results: Mutex::default(),
        }
    }

    /// Where things lie in its memory.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Its memory.
    pub fn memory(&self) -> &GuestMemoryMmap {
        &self.memory
    }

    /// The clock it shares with the host.
    pub fn clock(&self) -> TscClock {
        self.clock
    }

    /// Whether its workload waits for the gate to open.
    pub fn is_at_gate(&self) -> bool {
        self.gate.is_reached()
    }

    /// The figures it reported, in order.
    pub fn results(&self) -> Vec<(String, u64)> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The wait that a vCPU was told of last; `None` where it is told nothing.
    ///
    /// # Panics
    /// If the VM has no such vCPU.
    pub fn published_steal(&self, vcpu: u32) -> Option<Nanos> {
        let at = GuestAddress(self.layout.steal(vcpu));
        let told = self.memory.load::<u64>(at, Ordering::Relaxed).expect("steals lie inside memory");
        told.checked_sub(1).map(Nanos)
    }

    pub(super) fn publish_steal(&self, vcpu: u32, waited: Nanos) {
        let at = GuestAddress(self.layout.steal(vcpu));
        // Relaxed: the vCPU that reads it runs on this thread next.
        self.memory.store(waited.0 + 1, at, Ordering::Relaxed).expect("steals lie inside memory");
    }

    pub(super) fn publish_presence(&self, vcpu: u32, presence: Presence) {
        let at = GuestAddress(self.layout.steal(vcpu) + offset_of!(Steal, presence) as u64);
        let told = match presence {
            Presence::Untold => stile_abi::Presence::Untold,
            Presence::Here => stile_abi::Presence::Here,
            Presence::Away => stile_abi::Presence::Away,
        };
        // Relaxed: others may read it late, and find out by yielding or spinning in vain.
        self.memory.store(told as u32, at, Ordering::Relaxed).expect("steals lie inside memory");
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(super) fn add_result(&self, name: &str, value: u64) {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).push((name.to_owned(), value));
    }

    pub(super) fn console(&self) -> &Mutex<Console> {
        &self.console
    }

    pub(super) fn serial_write(&self, register: u16, value: u8) {
        // The trigger cannot fail and the console swallows what it cannot print.
        let _ = self.serial.lock().unwrap_or_else(PoisonError::into_inner).write(register as u8, value);
    }

    pub(super) fn serial_read(&self, port: u16, data: &mut [u8]) -> bool {
        match (port.checked_sub(0x3f8), data) {
            (Some(register @ 0..8), [value]) => {
                *value = self.serial.lock().unwrap_or_else(PoisonError::into_inner).read(register as u8);
                true
            }
            _ => false,
        }
    }

    pub(super) fn mmio_read(&self, address: u64, data: &mut [u8]) -> bool {
        self.device_at(address).map(|(device, offset)| device.read(offset, data)).is_some()
    }

    pub(super) fn mmio_write(&self, address: u64, data: &[u8]) -> bool {
        self.device_at(address).map(|(device, offset)| device.write(offset, data)).is_some()
    }

    /// Serves queues of the network device; false if there is none.
    pub(super) fn serve(&self, queues: Queues) -> bool {
        let device = self.device.as_ref().map(|mapped| &mapped.device);
        device.map(|device| queues.iter().for_each(|queue| device.notify(queue))).is_some()
    }

    fn device_at(&self, address: u64) -> Option<(&dyn MmioDevice, u64)> {
        let mapped = self.device.as_ref()?;
        let offset = address.checked_sub(mapped.base)?;
        (offset < super::layout::PAGE).then_some((&*mapped.device, offset))
    }
}

impl Deref for VmState {
    type Target = VmStatus;

    fn deref(&self) -> &VmStatus {
        &self.status
    }
}
