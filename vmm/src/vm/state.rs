//! What the vCPUs of a VM share with each other and with whoever runs the VM.

use super::clock::TscClock;
use super::console::{Console, Sink};
use super::gate::Gate;
use super::layout::Layout;
use super::outcome::Outcome;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use stile_abi::{Queues, milestone};
use stile_sched::ledger::Account;
use stile_sched::{Domain, Nanos, Time, VcpuId};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};
use vm_superio::serial::NoEvents;
use vm_superio::{Serial, Trigger};

/// Registers of a device, as a vCPU reads and writes them.
pub trait MmioDevice: Send + Sync {
    /// Reads at an offset.
    fn read(&self, offset: u64, data: &mut [u8]);
    /// Writes at an offset, and does the work it causes before it returns.
    fn write(&self, offset: u64, data: &[u8]);
    /// Does the work that waits in a queue, as a write of its number to the notification register does.
    fn notify(&self, queue: u16);
}

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

/// The vCPUs' ids, and the domain that carries them.
pub(super) struct Members {
    pub(super) domain: Arc<dyn Domain>,
    pub(super) ids: Vec<VcpuId>,
}

/// A running VM's shared part.
pub struct VmState {
    name: String,
    layout: Layout,
    memory: GuestMemoryMmap,
    clock: TscClock,
    console: Mutex<Console>,
    serial: Mutex<Serial<NoInterrupt, NoEvents, Console>>,
    device: Option<Mapped>,
    members: OnceLock<Members>,
    /// Accounts of vCPUs that have ended.
    last: Box<[OnceLock<Box<Account>>]>,
    /// Held while the vCPUs are retired; see [`VmState::end`].
    ending: Mutex<()>,
    outcome: OnceLock<Outcome>,
    started: OnceLock<Time>,
    ready: OnceLock<Time>,
    done: OnceLock<Time>,
    gate: Gate,
    results: Mutex<Vec<(String, u64)>>,
}

impl VmState {
    pub(super) fn new(
        name: &str,
        layout: Layout,
        memory: GuestMemoryMmap,
        clock: TscClock,
        sink: Sink,
        device: Option<Mapped>,
    ) -> Self {
        let serial = Serial::new(NoInterrupt, Console::new(name, sink.clone()));
        Self {
            name: name.to_owned(),
            layout,
            memory,
            clock,
            console: Mutex::new(Console::new(name, sink)),
            serial: Mutex::new(serial),
            device,
            members: OnceLock::new(),
            last: (0..layout.vcpus).map(|_| OnceLock::new()).collect(),
            ending: Mutex::default(),
            outcome: OnceLock::new(),
            started: OnceLock::new(),
            ready: OnceLock::new(),
            done: OnceLock::new(),
            gate: Gate::default(),
            results: Mutex::default(),
        }
    }

    /// The VM's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of vCPUs.
    pub fn vcpus(&self) -> u32 {
        self.layout.vcpus
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

    /// Whether it has ended; its vCPUs may still be on their way out.
    pub fn has_ended(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// How it ended, if it has.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }

    /// When guest code first ran.
    pub fn started(&self) -> Option<Time> {
        self.started.get().copied()
    }

    /// When its workload was set up, if it says so.
    pub fn ready(&self) -> Option<Time> {
        self.ready.get().copied()
    }

    /// When its workload had done all it had to, if it has and says so.
    pub fn done(&self) -> Option<Time> {
        self.done.get().copied()
    }

    /// Whether its workload waits for the gate to open.
    pub fn is_at_gate(&self) -> bool {
        self.gate.is_reached()
    }

    /// The figures it reported, in order.
    pub fn results(&self) -> Vec<(String, u64)> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What became of a vCPU's time so far, or until it ended; `None` while its domain has let go of it and not yet given
    /// the account to it.
    ///
    /// # Panics
    /// If the VM has no such vCPU.
    pub fn account(&self, vcpu: u32) -> Option<Account> {
        let ended = || self.last[vcpu as usize].get().map(|last| Account::clone(last));
        // It may end between two looks.
        ended().or_else(|| self.members.get()?.domain.account(self.member(vcpu)?)).or_else(ended)
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

    /// The last account of a vCPU, from its domain.
    pub(super) fn keep(&self, vcpu: u32, last: &Account) {
        let kept = self.last[vcpu as usize].set(Box::new(last.clone()));
        debug_assert!(kept.is_ok(), "a vCPU ends once");
    }

    /// Sends an event to a vCPU.
    pub fn wake(&self, vcpu: u32) {
        if let Some(members) = self.members.get()
            && let Some(&id) = members.ids.get(vcpu as usize)
        {
            members.domain.wake(id);
        }
    }

    /// Ends the VM; the first outcome counts. When this returns, the domain has been told to retire every vCPU, whoever
    /// came first.
    ///
    /// A vCPU must not let go of its id by itself before that: the domain might give the id to a vCPU of another VM, and
    /// that one would be retired. So each comes through here before it says that it is done.
    pub fn end(&self, outcome: Outcome) {
        let _retiring = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        if self.outcome.set(outcome).is_ok()
            && let Some(members) = self.members.get()
        {
            members.ids.iter().for_each(|&id| members.domain.retire(id));
        }
    }

    pub(super) fn join(&self, members: Members) {
        assert!(self.members.set(members).is_ok(), "a VM joins one domain once");
    }

    pub(super) fn members(&self) -> Option<&Members> {
        self.members.get()
    }

    pub(super) fn member(&self, vcpu: u32) -> Option<VcpuId> {
        self.members.get()?.ids.get(vcpu as usize).copied()
    }

    pub(super) fn milestone(&self, value: u32) {
        let reached = match value {
            milestone::STARTED => &self.started,
            milestone::READY => &self.ready,
            milestone::DONE => &self.done,
            _ => return,
        };
        // Only the first vCPU to get there counts.
        if reached.get().is_none() {
            let _ = reached.set(stile_sched::time::monotonic());
        }
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
