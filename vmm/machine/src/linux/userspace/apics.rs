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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::apic::local::msr;
    use crate::linux::apic::{Effect, Trigger};
    use std::sync::mpsc;

    const WINDOW: u64 = 0x10;

    /// The APICs of a VM of three vCPUs, turned on.
    fn apics() -> Arc<Apics> {
        let apics = Apics::new(Arc::new(VmStatus::new("vm", 3)), TscClock::new(1_000_000), true);
        (0..3).for_each(|vcpu| write(&apics, vcpu, msr::SVR, 0x1ff));
        Arc::new(apics)
    }

    fn write(apics: &Apics, vcpu: u32, register: u32, value: u64) {
        assert_eq!(apics.local(vcpu).apic.write(register, value, apics.now()), Ok(Effect::Nothing));
    }

    fn fixed(to: Destination, vector: u8) -> Ipi {
        Ipi { to, message: Message { delivery: Delivery::Fixed, vector, trigger: Trigger::Edge } }
    }

    fn requested(apics: &Apics) -> [Option<u8>; 3] {
        [0, 1, 2].map(|vcpu| apics.local(vcpu).apic.deliverable())
    }

    #[test]
    fn a_message_kicks_the_thread_that_carries_its_vcpu_and_no_thread_that_has_left_the_guest() {
        let apics = apics();
        let (entered, enters) = mpsc::channel();
        let (sent, sends) = mpsc::channel();
        let carrier = std::thread::spawn({
            let apics = Arc::clone(&apics);
            move || {
                kick::block();
                let kicked = |carrier| {
                    apics.local(1).carrier = carrier;
                    entered.send(()).unwrap();
                    sends.recv().unwrap();
                    let kicked = kick::is_pending();
                    kick::drain();
                    kicked
                };
                [kicked(Some(kick::this_thread())), kicked(None)]
            }
        });
        for vector in [0x40, 0x50] {
            enters.recv().unwrap();
            apics.send(fixed(Destination::Physical(1), vector), Some(0));
            sent.send(()).unwrap();
        }
        assert_eq!(carrier.join().unwrap(), [true, false]);
        assert_eq!(requested(&apics), [None, Some(0x50), None]);
    }

    #[test]
    fn a_carrier_that_posts_to_itself_in_an_exit_is_not_kicked() {
        let apics = apics();
        let kicked = std::thread::spawn(move || {
            kick::block();
            apics.local(1).carrier = Some(kick::this_thread());
            apics.send(fixed(Destination::Itself, 0x40), Some(1));
            assert_eq!(requested(&apics), [None, Some(0x40), None]);
            kick::is_pending()
        });
        assert!(!kicked.join().unwrap());
    }

    #[test]
    fn messages_go_to_all_of_their_destination_and_the_lowest_priority_to_one() {
        let apics = apics();
        apics.send(fixed(Destination::Others, 0x40), Some(1));
        assert_eq!(requested(&apics), [Some(0x40), None, Some(0x40)]);
        apics.send(fixed(Destination::Logical(0b110), 0x50), Some(1));
        assert_eq!(requested(&apics), [Some(0x40), Some(0x50), Some(0x50)]);
        apics.send(fixed(Destination::Physical(9), 0x60), Some(1));
        assert_eq!(requested(&apics), [Some(0x40), Some(0x50), Some(0x50)], "there is no such APIC");
        let apics = self::apics();
        [(0, 0x30), (1, 0x20), (2, 0x25)].into_iter().for_each(|(vcpu, task)| write(&apics, vcpu, msr::TPR, task));
        let lowest = fixed(Destination::All, 0x40);
        apics.send(Ipi { message: Message { delivery: Delivery::Lowest, ..lowest.message }, ..lowest }, Some(0));
        assert_eq!(requested(&apics), [None, Some(0x40), None]);
    }

    #[test]
    fn a_line_of_the_io_apic_interrupts_and_a_level_comes_again_after_its_end() {
        let apics = apics();
        let put = |register: u32, value: u32| {
            assert!(apics.write(IO_APIC.into(), &register.to_le_bytes()));
            assert!(apics.write(u64::from(IO_APIC) + WINDOW, &value.to_le_bytes()));
        };
        put(0x1b, 2 << 24);
        put(0x1a, 0x45);
        apics.pulse(5);
        assert_eq!(apics.local(2).apic.acknowledge(), Some(0x45));
        assert_eq!(apics.local(2).apic.end_of_interrupt(), Effect::Nothing);
        put(0x1a, 0x46 | 1 << 15);
        let level = apics.io.lock().set(5, true);
        level.into_iter().for_each(|ipi| apics.send(ipi, None));
        for _ in 0..2 {
            assert_eq!(apics.local(2).apic.acknowledge(), Some(0x46));
            assert_eq!(apics.local(2).apic.end_of_interrupt(), Effect::Ended(0x46));
            apics.ended(0x46);
        }
        let mut read = [0; 4];
        assert!(apics.read(u64::from(IO_APIC) + WINDOW, &mut read));
        assert_eq!(u32::from_le_bytes(read), 0x46 | 1 << 15 | 1 << 14);
        assert!(!apics.read(u64::from(IO_APIC) + PAGE, &mut read) && !apics.write(0, &read));
    }
}
