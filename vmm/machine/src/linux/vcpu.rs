//! A vCPU of a Linux guest: KVM_RUN, and the work of each exit.
//!
//! The interrupt controllers are KVM's. So a vCPU that halts, or that its kernel has not started yet, waits inside
//! KVM_RUN and makes no exit: see [`crate::halt`]. Accesses to device registers are handled here, on the vCPU's thread.
//! The work that a notification causes is done by the devices' worker, which KVM wakes without an exit.

use super::exits::{self, Event};
use super::msr_exits;
use super::spin_look;
use super::state::LinuxState;
use super::steal::{self, StealTime};
use crate::devices::PendingWrite;
use crate::halt::Halting;
use crate::spin::LastSpot;
use crate::vm::host_exits::Pause;
use crate::vm::{Fault, FaultKind, Outcome, Pausable, RetiredVcpu, caught};
use kvm_ioctls::{VcpuExit, VcpuFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use stile_abi::milestone;
use stile_sched::ledger::Account;
use stile_sched::time::monotonic;
use stile_sched::{Nanos, Presence, Stop, Yield};

/// One vCPU of a VM.
pub(super) struct LinuxVcpu {
    pub(super) index: u32,
    pub(super) fd: VcpuFd,
    pub(super) halting: Halting,
    pub(super) last_spot: LastSpot,
    /// A write to a busy device, which has to be done before the guest goes on.
    pub(super) pending: Option<PendingWrite>,
    /// After a bus lock.
    pub(super) pause: Pause,
    pub(super) steal: StealTime,
    pub(super) vm: Arc<LinuxState>,
    pub(super) retired: Sender<RetiredVcpu>,
}

impl stile_sched::Vcpu for LinuxVcpu {
    fn run(&mut self) -> Stop {
        match caught(|| self.step()) {
            Ok(stop) => stop,
            Err(kind) => self.broken(kind),
        }
    }

    fn halts_inside(&self) -> bool {
        true
    }

    fn doze(&mut self) -> bool {
        self.halting.doze(&mut self.fd)
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
        self.vm.status.keep(self.index, last);
        let retired = self.retired.clone();
        // The owner waits for all vCPUs of its VM before it drops the receiver.
        let _ = retired.send(RetiredVcpu::of(self));
    }
}

impl Pausable for LinuxVcpu {
    fn resumes(&mut self) {
        tell_of_pause(&self.fd);
    }
}

/// Has the guest's kvmclock say that the vCPU was stopped, so that its kernel reports no lockup (KVM_KVMCLOCK_CTRL). A
/// guest that does not use that clock is told nothing.
pub(super) fn tell_of_pause(fd: &VcpuFd) {
    // The error is that of a guest without the clock.
    let _ = fd.kvmclock_ctrl();
}

impl LinuxVcpu {
    /// Runs the guest to its next exit and does what that asks for, or what is left of that.
    fn step(&mut self) -> Stop {
        if self.vm.status.has_ended() {
            return self.end(Outcome::Stopped);
        }
        if let Some(write) = self.pending.take() {
            self.pending = self.vm.write_again(&write);
        }
        if self.pending.is_some() {
            return Stop::Idle(PendingWrite::again());
        }
        if let Some(until) = self.pause.left(monotonic) {
            return Stop::Idle(until);
        }
        self.vm.status.milestone(milestone::STARTED);
        let event = self.enter();
        self.pause.look(self.fd.get_kvm_run(), monotonic);
        match event {
            Event::Handled | Event::Completes => Stop::Exit,
            Event::Kicked if self.halting.is_halted(&self.fd) => Stop::Halted,
            Event::Kicked => Stop::Kicked,
            Event::Ends(outcome) => self.end(outcome),
            Event::Broken(kind) => self.broken(kind),
        }
    }

    /// Runs the guest until its next exit.
    fn enter(&mut self) -> Event {
        let exit = match exits::run(&mut self.fd, &self.vm, &mut self.pending) {
            Ok(event) => return event,
            Err(exit) => exit,
        };
        match exit {
            VcpuExit::X86Rdmsr(exit) => msr_exits::read(exit, |register| match register {
                steal::MSR => Some(self.steal.register()),
                _ => None,
            }),
            VcpuExit::X86Wrmsr(exit) => {
                msr_exits::write(exit, |register, value| match register {
                    steal::MSR => self.steal.set_register(value, &self.vm.memory),
                    _ => None,
                });
                self.vm.keep_told_steal(self.index, self.steal.told());
            }
            other => return exits::other(&other),
        }
        Event::Handled
    }

    fn broken(&mut self, kind: FaultKind) -> Stop {
        let rip = self.fd.get_regs().map(|registers| registers.rip).ok();
        self.end(Outcome::Fault(Fault { vcpu: self.index, rip, kind }))
    }

    /// Ends this vCPU, and the VM with this outcome unless it has ended already.
    fn end(&mut self, outcome: Outcome) -> Stop {
        self.vm.status.end(outcome);
        Stop::Done
    }
}
