//! The APICs of a VM, shared by all threads that send interrupts.
//!
//! # Which thread may touch what
//! Each local APIC is in a mutex with the name of the thread that is about to run its vCPU, or runs it: its *carrier*.
//! Any thread may post a message: another vCPU's, or the devices' worker. All else is done by the carrier. The I/O APIC
//! has a mutex of its own. No thread holds two of these at a time, and none makes a system call while it holds one.
//!
//! # Why no interrupt is lost
//! 1. The carrier locks its APIC, looks at what is pending, and if it enters the guest, notes itself as carrier before
//!    it unlocks.
//! 2. A sender locks the APIC, adds the message, reads who the carrier is, and unlocks. If there is one, the sender
//!    kicks it. If there is none, the sender wakes the vCPU.
//! 3. A sender that comes before the carrier's look is seen by it. One that comes after finds the carrier, and its kick
//!    ends KVM_RUN, also if it arrives before KVM_RUN begins ([`stile_sched::kick`]).
//! 4. A carrier that finds nothing pending lets its vCPU idle. A sender that comes after that look wakes the vCPU, and
//!    a wake that comes before the idle makes the idle return at once ([`stile_sched::Domain::wake`]).
//! 5. When the carrier has left the guest it takes its name back. A kick that it gets after that costs an exit.

use crate::devices::virtio::Notify;
use crate::linux::apic::{Delivery, Destination, IoApic, Ipi, LocalApic, Message, Now};
use crate::linux::layout::{IO_APIC, PAGE};
use crate::vm::VmStatus;
use crate::vm::clock::TscClock;
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use stile_sched::kick::{self, ThreadId};
use stile_sched::time::monotonic;

/// The interrupt controllers of a VM.
pub(in crate::linux) struct Apics {
    locals: Box<[Mutex<Local>]>,
    io: Mutex<IoApic>,
    clock: TscClock,
    status: Arc<VmStatus>,
}

/// A local APIC, and the thread that carries its vCPU through the guest.
pub(super) struct Local {
    pub(super) apic: LocalApic,
    pub(super) carrier: Option<ThreadId>,
}

impl Apics {
    /// Those of the VM with this status.
    pub(in crate::linux) fn new(status: Arc<VmStatus>, clock: TscClock, has_deadline: bool) -> Self {
        let local = |id| Mutex::new(Local { apic: LocalApic::new(id, clock, has_deadline), carrier: None });
        Self { locals: (0..status.vcpus()).map(local).collect(), io: Mutex::default(), clock, status }
    }

    /// The present.
    pub(super) fn now(&self) -> Now {
        Now { time: monotonic(), tsc: self.clock.now() }
    }

    /// The local APIC of a vCPU, for its carrier.
    pub(super) fn local(&self, vcpu: u32) -> MutexGuard<'_, Local> {
        self.locals[vcpu as usize].lock()
    }

    /// Sends a message to each local APIC that it is for.
    pub(super) fn send(&self, ipi: Ipi, sender: Option<u32>) {
        let all = 0..self.locals.len() as u32;
        match (ipi.to, ipi.message.delivery) {
            (Destination::Physical(id), _) => self.post(id, ipi.message),
            (to, Delivery::Lowest) => {
                let candidates = all.filter(|id| to.contains(*id, sender));
                let priority = |id: &u32| self.local(*id).apic.processor_priority();
                candidates.min_by_key(priority).into_iter().for_each(|id| self.post(id, ipi.message));
            }
            (to, _) => all.filter(|id| to.contains(*id, sender)).for_each(|id| self.post(id, ipi.message)),
        }
    }

    /// Adds a message to a local APIC, if there is one with this id, and sees to it that its vCPU looks.
    fn post(&self, id: u32, message: Message) {
        let Some(local) = self.locals.get(id as usize) else { return };
        let carrier = {
            let mut local = local.lock();
            if !local.apic.accept(message) {
                return;
            }
            local.carrier
        };
        match carrier {
            // It is outside the guest: this is the work of one of its exits.
            Some(thread) if thread == kick::this_thread() => {}
            Some(thread) => kick::send(thread),
            None => self.status.wake(id),
        }
    }

    /// Asserts a line of the I/O APIC for a moment.
    pub(in crate::linux) fn pulse(&self, pin: usize) {
        let message = self.io.lock().pulse(pin);
        message.into_iter().for_each(|ipi| self.send(ipi, None));
    }

    /// A level-triggered interrupt has ended.
    pub(super) fn ended(&self, vector: u8) {
        let again = self.io.lock().end_of_interrupt(vector);
        again.into_iter().flatten().for_each(|ipi| self.send(ipi, None));
    }

    /// Handles a guest's read of an address. False if it belongs to no register of the I/O APIC.
    pub(in crate::linux) fn read(&self, address: u64, data: &mut [u8]) -> bool {
        let Some(offset) = offset(address) else { return false };
        self.io.lock().read(offset, data);
        true
    }

    /// Handles a guest's write to an address, in the same way.
    pub(in crate::linux) fn write(&self, address: u64, data: &[u8]) -> bool {
        let Some(offset) = offset(address) else { return false };
        let message = self.io.lock().write(offset, data);
        message.into_iter().for_each(|ipi| self.send(ipi, None));
        true
    }
}

/// The offset of an address in the I/O APIC's page.
fn offset(address: u64) -> Option<u64> {
    address.checked_sub(IO_APIC.into()).filter(|offset| *offset < PAGE)
}

/// An edge-triggered line of the I/O APIC.
pub(in crate::linux) struct Pin {
    /// The VM's APICs.
    pub(in crate::linux) apics: Arc<Apics>,
    /// Number of the line.
    pub(in crate::linux) number: usize,
}

impl Notify for Pin {
    fn notify(&self) {
        self.apics.pulse(self.number);
    }
}
