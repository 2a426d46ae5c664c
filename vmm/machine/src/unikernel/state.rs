//! The state of a unikernel VM that its vCPUs and its owner share, beside the [`VmStatus`].

use super::gate::Gate;
use super::layout::Layout;
use crate::devices::virtio::Progress;
use crate::devices::{MmioDevice, Written};
use crate::vm::clock::TscClock;
use crate::vm::console::{Console, Sink, harmless};
use crate::vm::{PaidBy, VmStatus};
use std::mem::offset_of;
use std::ops::Deref;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use stile_abi::{Queues, Steal};
use stile_sched::{Nanos, Presence};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vm_superio::serial::NoEvents;
use vm_superio::{Serial, Trigger};

/// Most results that a VM keeps. Its guest's names have at most [`stile_abi::NAME_MAX`] bytes, so this is below 1 MiB.
pub const RESULTS_MAX: usize = 4096;

/// A device and its address. Its window is one page.
pub(super) struct Mapped {
    /// First address.
    pub base: u64,
    /// The device.
    pub device: Arc<dyn MmioDevice>,
}

/// Ignores interrupts: unikernel guests have no interrupt controller and poll the serial port.
struct NoInterrupt;

impl Trigger for NoInterrupt {
    type E = std::convert::Infallible;
    fn trigger(&self) -> Result<(), Self::E> {
        Ok(())
    }
}

/// The shared state of a running VM.
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
        let payer = PaidBy::from(Arc::clone(&status));
        let console = |sink| Console::new(status.name(), sink).paid_by(payer.clone());
        let serial = Serial::new(NoInterrupt, console(sink.clone()));
        Self {
            layout,
            memory,
            clock,
            console: Mutex::new(console(sink)),
            status,
            serial: Mutex::new(serial),
            device,
            gate: Gate::default(),
            results: Mutex::default(),
        }
    }

    /// Addresses of the structures in guest memory.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Guest memory.
    pub fn memory(&self) -> &GuestMemoryMmap {
        &self.memory
    }

    /// The clock that the VM shares with the host.
    pub fn clock(&self) -> TscClock {
        self.clock
    }

    /// Whether the workload waits for the gate to open.
    pub fn is_at_gate(&self) -> bool {
        self.gate.is_reached()
    }

    /// The named figures that the workload reported, in the order of the reports.
    pub fn results(&self) -> Vec<(String, u64)> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The wait (steal time) that the guest was last told for a vCPU; `None` where guests are told nothing.
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
        // Relaxed: the vCPU that reads it runs next on this thread.
        self.memory.store(waited.0 + 1, at, Ordering::Relaxed).expect("steals lie inside memory");
    }

    pub(super) fn publish_presence(&self, vcpu: u32, presence: Presence) {
        let at = GuestAddress(self.layout.steal(vcpu) + offset_of!(Steal, presence) as u64);
        let told = match presence {
            Presence::Untold => stile_abi::Presence::Untold,
            Presence::Here => stile_abi::Presence::Here,
            Presence::Away | Presence::Idle => stile_abi::Presence::Away,
        };
        // Relaxed: other vCPUs may read it late. They find out by a yield or a spin in vain.
        self.memory.store(told as u32, at, Ordering::Relaxed).expect("steals lie inside memory");
    }

    pub(super) fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Keeps a result. Returns false if there are [`RESULTS_MAX`] already.
    pub(super) fn add_result(&self, name: &str, value: u64) -> bool {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = results.len() < RESULTS_MAX;
        if has_room {
            // The name goes to terminals.
            results.push((harmless(name), value));
        }
        has_room
    }

    pub(super) fn console(&self) -> &Mutex<Console> {
        &self.console
    }

    pub(super) fn serial_write(&self, register: u16, value: u8) {
        // The trigger cannot fail, and the console drops what it cannot print.
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

    /// Handles a write to an address without memory. `None`: there is no device.
    pub(super) fn mmio_write(&self, address: u64, data: &[u8]) -> Option<Written> {
        self.device_at(address).map(|(device, offset)| device.write(offset, data))
    }

    /// Does a turn of the work in each of these queues of the network device. Returns those that have more, or `None`
    /// if there is no device.
    pub(super) fn serve(&self, queues: Queues) -> Option<Queues> {
        let device = &self.device.as_ref()?.device;
        let more = queues.iter().filter(|queue| device.notify(*queue) == Progress::More);
        Some(more.fold(Queues::NONE, Queues::with))
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
