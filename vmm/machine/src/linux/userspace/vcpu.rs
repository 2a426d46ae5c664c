//! A vCPU whose interrupt controller is in user space: what it does next, KVM_RUN, and the work of each exit.
//!
//! A run has these steps:
//! 1. A vCPU that waits for its start, or has halted with nothing to wake it, idles until its timer's deadline.
//! 2. Under the lock of its APIC it looks at what is pending, and becomes known as one that is in the guest.
//! 3. An NMI or an interrupt goes into KVM if the guest can take it at once. If not, KVM is asked for an exit when the
//!    guest can.
//! 4. KVM_RUN, with the thread's timer set to the deadline of the APIC's.
//! 5. It is no longer known as one in the guest, and the exit is handled.

use super::alarm;
use super::apics::Apics;
use super::inject::{self, Pristine};
use super::msrs::{APIC_BASE, apic_base};
use super::pv_eoi::{PV_EOI, PvEoi};
use crate::devices::PendingWrite;
use crate::linux::apic::local::msr;
use crate::linux::apic::{Effect, GeneralProtection, Startup};
use crate::linux::exits::{self, Event};
use crate::linux::spin_look;
use crate::linux::state::LinuxState;
use crate::linux::steal::{self, StealTime};
use crate::linux::vcpu::tell_of_pause;
use crate::spin::LastSpot;
use crate::vm::host_exits::Pause;
use crate::vm::{Fault, FaultKind, Outcome, Pausable, RetiredVcpu, between_turns, caught};
use kvm_ioctls::{VcpuExit, VcpuFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use stile_abi::milestone;
use stile_sched::ledger::Account;
use stile_sched::time::monotonic;
use stile_sched::{Nanos, Presence, Stop, Time, Yield, kick};

/// One vCPU of a VM.
pub(in crate::linux) struct UserVcpu {
    index: u32,
    fd: VcpuFd,
    pristine: Pristine,
    apics: Arc<Apics>,
    vm: Arc<LinuxState>,
    retired: Sender<RetiredVcpu>,
    eoi: PvEoi,
    steal: StealTime,
    last_spot: LastSpot,
    halted: bool,
    /// KVM still has to complete the last exit, which may make an exception. One interrupt beside it would be lost.
    completes: bool,
    /// The class of the task priority with which the vCPU last entered the guest.
    class: u8,
    /// A write to a busy device, which has to be done before the guest goes on.
    pending: Option<PendingWrite>,
    /// After a bus lock.
    pause: Pause,
}

/// An exit.
enum Exit {
    /// One that any vCPU may make.
    Common(Event),
    Halted,
    MsrRead,
    MsrWrite,
}

/// What goes into KVM before an entry.
struct Entry {
    nmi: bool,
    interrupt: Option<u8>,
    /// When the thread has to be kicked.
    until: Time,
    now: Time,
}

impl stile_sched::Vcpu for UserVcpu {
    fn run(&mut self) -> Stop {
        match caught(|| self.step()) {
            Ok(stop) => stop,
            Err(kind) => self.broken(kind),
        }
    }

    fn spins(&mut self) -> Option<Yield> {
        self.last_spot.follow(spin_look::look(&self.fd, &self.vm.memory))
    }

    fn waited(&mut self, total: Nanos, taken: Nanos) {
        self.steal.set_missed(total + taken, &self.vm.memory);
        self.vm.keep_told_steal(self.index, self.steal.told());
    }

    fn presence(&mut self, presence: Presence) {
        self.steal.set_presence(presence, &self.vm.memory);
    }

    fn retired(self: Box<Self>, last: &Account) {
        self.vm.status().keep(self.index, last);
        let retired = self.retired.clone();
        // The owner waits for all vCPUs of its VM before it drops the receiver.
        let _ = retired.send(RetiredVcpu::of(self));
    }
}

impl Pausable for UserVcpu {
    fn resumes(&mut self) {
        tell_of_pause(&self.fd);
    }
}

impl UserVcpu {
    /// Runs the guest to its next exit and does what that asks for, or what is left of that.
    fn step(&mut self) -> Stop {
        if self.vm.status().has_ended() {
            return self.end(Outcome::Stopped);
        }
        match self.start_up() {
            Ok(false) => {}
            // The next one may have come already: other vCPUs can send them without end.
            Ok(true) => return between_turns(),
            Err(error) => return self.broken(FaultKind::Kvm(format!("cannot start the vCPU: {error}"))),
        }
        if let Some(write) = self.pending.take() {
            self.pending = self.vm.write_again(&write);
        }
        if self.pending.is_some() {
            return Stop::Idle(PendingWrite::again());
        }
        if let Some(until) = self.idles_until() {
            return Stop::Idle(until);
        }
        if let Some(until) = self.pause.left(monotonic) {
            return Stop::Idle(until);
        }
        self.vm.status().milestone(milestone::STARTED);
        let exit = self.enter();
        self.pause.look(self.fd.get_kvm_run(), monotonic);
        match exit {
            Exit::Common(Event::Handled | Event::Completes) => Stop::Exit,
            Exit::Common(Event::Kicked) => Stop::Kicked,
            Exit::Common(Event::Ends(outcome)) => self.end(outcome),
            Exit::Common(Event::Broken(kind)) => self.broken(kind),
            Exit::Halted => {
                self.halted = true;
                self.idles_until().map_or(Stop::Exit, Stop::Idle)
            }
            Exit::MsrRead => {
                self.reads_msr();
                Stop::Exit
            }
            Exit::MsrWrite => {
                self.writes_msr();
                Stop::Exit
            }
        }
    }

    /// The vCPU `index`, whose registers are set.
    pub(in crate::linux) fn new(
        index: u32,
        fd: VcpuFd,
        pristine: Pristine,
        apics: Arc<Apics>,
        vm: Arc<LinuxState>,
        retired: Sender<RetiredVcpu>,
    ) -> Self {
        Self {
            index,
            fd,
            pristine,
            apics,
            vm,
            retired,
            eoi: PvEoi::default(),
            steal: StealTime::default(),
            last_spot: LastSpot::default(),
            halted: false,
            completes: false,
            class: 0,
            pending: None,
            pause: Pause::default(),
        }
    }

    /// Does what an INIT or a start-up message asks for. False: there is none.
    fn start_up(&mut self) -> Result<bool, kvm_ioctls::Error> {
        let startup = self.apics.local(self.index).apic.take_startup();
        match startup {
            None => return Ok(false),
            Some(Startup::Reset) => self.pristine.reset(&self.fd)?,
            Some(Startup::At(page)) => self.pristine.start(&self.fd, page)?,
        }
        (self.halted, self.completes) = (false, true);
        Ok(true)
    }

    /// Until when the vCPU has nothing to do; `None` if it has.
    fn idles_until(&mut self) -> Option<Time> {
        let takes = self.fd.get_kvm_run().if_flag != 0;
        let mut local = self.apics.local(self.index);
        let apic = &mut local.apic;
        if apic.waits_for_start() {
            return Some(Time::NEVER);
        }
        apic.advance(monotonic());
        if !self.halted || apic.must_run() || (takes && apic.deliverable().is_some()) {
            return None;
        }
        Some(if takes { apic.deadline() } else { Time::NEVER })
    }

    /// Runs the guest until its next exit.
    fn enter(&mut self) -> Exit {
        let entry = self.look();
        let prepared = self.prepare(&entry);
        let exit = match prepared {
            Ok(()) => self.run_guest(),
            Err(kind) => Exit::Common(Event::Broken(kind)),
        };
        self.completes = matches!(exit, Exit::Common(Event::Completes));
        self.leave();
        exit
    }

    /// Looks at what is pending, and enters the guest for all that others know.
    fn look(&mut self) -> Entry {
        let run = self.fd.get_kvm_run();
        let can_take = run.ready_for_interrupt_injection != 0 && run.if_flag != 0 && !self.completes;
        self.halted = false;
        let now = monotonic();
        let mut local = self.apics.local(self.index);
        let apic = &mut local.apic;
        apic.advance(now);
        let nmi = apic.take_nmi();
        // The interrupt waits if there is an NMI, which goes first.
        let interrupt = if can_take && !nmi { apic.acknowledge() } else { None };
        run.request_interrupt_window = u8::from(apic.deliverable().is_some());
        if apic.ends_alone() {
            self.eoi.offer(self.vm.memory());
        }
        let class = apic.task_priority() >> 4;
        (run.cr8, self.class) = (class.into(), class);
        let until = apic.deadline();
        local.carrier = Some(kick::this_thread());
        Entry { nmi, interrupt, until, now }
    }

    fn prepare(&mut self, entry: &Entry) -> Result<(), FaultKind> {
        let refused = |what: &str, error: kvm_ioctls::Error| FaultKind::Kvm(format!("{what} is refused: {error}"));
        if entry.nmi {
            self.fd.nmi().map_err(|error| refused("an NMI", error))?;
        }
        if let Some(vector) = entry.interrupt {
            inject::interrupt(&self.fd, vector).map_err(|error| refused("an interrupt", error))?;
        }
        alarm::set(entry.until, entry.now).map_err(|error| FaultKind::Kvm(format!("the host gives no timer: {error}")))
    }

    fn run_guest(&mut self) -> Exit {
        match exits::run(&mut self.fd, &self.vm, &mut self.pending) {
            Ok(event) => Exit::Common(event),
            Err(VcpuExit::Hlt) => Exit::Halted,
            Err(VcpuExit::IrqWindowOpen | VcpuExit::SetTpr) => Exit::Common(Event::Handled),
            Err(VcpuExit::X86Rdmsr(_)) => Exit::MsrRead,
            Err(VcpuExit::X86Wrmsr(_)) => Exit::MsrWrite,
            Err(other) => Exit::Common(exits::other(&other)),
        }
    }

    /// Has left the guest.
    fn leave(&mut self) {
        let class = (self.fd.get_kvm_run().cr8 & 0xf) as u8;
        let mut local = self.apics.local(self.index);
        local.carrier = None;
        if self.eoi.take_back(self.vm.memory()) {
            // Its end concerns no I/O APIC: that was a condition of the offer.
            let _ = local.apic.end_of_interrupt();
        }
        if self.class != class {
            local.apic.set_task_class(class);
        }
    }

    fn reads_msr(&mut self) {
        let access = inject::msr_access(self.fd.get_kvm_run());
        let value = match access.index {
            msr::FIRST..=msr::LAST | msr::TSC_DEADLINE => {
                self.apics.local(self.index).apic.read(access.index, self.apics.now())
            }
            APIC_BASE => Ok(apic_base(self.index)),
            PV_EOI => Ok(self.eoi.register()),
            steal::MSR => Ok(self.steal.register()),
            _ => Err(GeneralProtection),
        };
        let access = inject::msr_access(self.fd.get_kvm_run());
        access.error = value.is_err().into();
        access.data = value.unwrap_or(0);
        self.completes = value.is_err();
    }

    fn writes_msr(&mut self) {
        let access = *inject::msr_access(self.fd.get_kvm_run());
        let effect = match access.index {
            msr::FIRST..=msr::LAST | msr::TSC_DEADLINE => {
                self.apics.local(self.index).apic.write(access.index, access.data, self.apics.now())
            }
            PV_EOI => self.eoi.set_register(access.data).map(|()| Effect::Nothing),
            steal::MSR => self.sets_steal(access.data),
            // Its mode stays as it is.
            APIC_BASE if access.data == apic_base(self.index) => Ok(Effect::Nothing),
            _ => Err(GeneralProtection),
        };
        inject::msr_access(self.fd.get_kvm_run()).error = effect.is_err().into();
        self.completes = effect.is_err();
        match effect {
            Ok(Effect::Send(ipi)) => self.apics.send(ipi, Some(self.index)),
            Ok(Effect::Ended(vector)) => self.apics.ended(vector),
            Ok(Effect::Nothing) | Err(GeneralProtection) => {}
        }
    }

    fn sets_steal(&mut self, value: u64) -> Result<Effect, GeneralProtection> {
        let set = self.steal.set_register(value, &self.vm.memory);
        self.vm.keep_told_steal(self.index, self.steal.told());
        set.map(|()| Effect::Nothing).ok_or(GeneralProtection)
    }

    fn broken(&self, kind: FaultKind) -> Stop {
        let rip = self.fd.get_regs().map(|registers| registers.rip).ok();
        self.end(Outcome::Fault(Fault { vcpu: self.index, rip, kind }))
    }

    /// Ends this vCPU, and the VM with this outcome unless it has ended already.
    fn end(&self, outcome: Outcome) -> Stop {
        self.vm.status().end(outcome);
        Stop::Done
    }
}
