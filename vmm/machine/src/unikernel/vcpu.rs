//! A vCPU of a unikernel: KVM_RUN, and the work of each exit.
//!
//! All work that a vCPU causes (doorbells, device registers, and what devices do for them) is done here, on the thread
//! that runs the vCPU, and so on its time. It is done in turns: see [`super::debt`].

use super::debt::Debt;
use super::layout::{PAGE, STUBS};
use super::registers::Registers;
use super::state::{RESULTS_MAX, VmState};
use crate::devices::Written;
use crate::spin::{AHEAD, LOOP_MAX, LastSpot, Spin, Spot};
use crate::vm::host_exits::{HostExit, Pause};
use crate::vm::{Fault, FaultKind, Outcome, Pausable, RetiredVcpu, between_turns, caught, has_error_code};
use kvm_bindings::kvm_regs;
use kvm_ioctls::{VcpuExit, VcpuFd};
use std::io::Write;
use std::sync::mpsc::Sender;
use std::sync::{Arc, PoisonError};
use stile_abi::{CONSOLE_MAX, HintKind, KICK_OTHERS, NAME_MAX, NO_DEADLINE, Queues, port};
use stile_sched::ledger::Account;
use stile_sched::time::monotonic;
use stile_sched::{Nanos, Presence, Stop, Time, Wait, Yield};
use vm_memory::{Bytes, GuestAddress};

/// First register of the 16550.
const SERIAL: u16 = 0x3f8;
const SERIAL_LAST: u16 = SERIAL + 7;
const FAULT_LAST: u16 = port::FAULT + 31;

/// One vCPU of a VM.
pub(super) struct GuestVcpu {
    pub(super) index: u32,
    pub(super) fd: VcpuFd,
    pub(super) registers: Registers,
    pub(super) last_spot: LastSpot,
    /// The vCPU waits for its VM's gate to open.
    pub(super) at_gate: bool,
    /// Device work that has to be done before the guest goes on.
    pub(super) debt: Debt,
    /// After a bus lock.
    pub(super) pause: Pause,
    pub(super) vm: Arc<VmState>,
    pub(super) retired: Sender<RetiredVcpu>,
}

/// An exit, with the data that it needs copied out of the shared run page.
enum Event {
    Out {
        port: u16,
        width: usize,
        value: u32,
    },
    Handled,
    /// Handled but for the debt.
    Owes,
    Kicked,
    Broken(FaultKind),
}

impl stile_sched::Vcpu for GuestVcpu {
    fn run(&mut self) -> Stop {
        match caught(|| self.step()) {
            Ok(stop) => stop,
            Err(kind) => self.broken(kind),
        }
    }

    fn spins(&mut self) -> Option<Yield> {
        let spot = self.registers.read(&self.fd).and_then(|registers| self.spot(&registers));
        self.registers.come_with_exits(&mut self.fd, spot.is_some());
        self.last_spot.follow(spot)
    }

    fn waited(&mut self, total: Nanos, _taken: Nanos) {
        self.vm.publish_steal(self.index, total);
    }

    fn presence(&mut self, presence: Presence) {
        self.vm.publish_presence(self.index, presence);
    }

    fn retired(self: Box<Self>, last: &Account) {
        self.vm.keep(self.index, last);
        let retired = self.retired.clone();
        // The owner waits for all vCPUs of its VM before it drops the receiver.
        let _ = retired.send(RetiredVcpu::of(self));
    }
}

impl Pausable for GuestVcpu {}

impl GuestVcpu {
    /// Pays a part of the debt, or runs the guest to its next exit and does what that asks for.
    fn step(&mut self) -> Stop {
        if self.vm.has_ended() {
            return self.end(Outcome::Stopped);
        }
        if self.at_gate {
            self.at_gate = !self.vm.gate().admits(self.index);
            if self.at_gate {
                return Stop::Idle(Time::NEVER);
            }
        }
        if !self.debt.is_none()
            && let Some(stop) = self.debt.pay(&self.vm, self.index)
        {
            return stop;
        }
        if let Some(until) = self.pause.left(monotonic) {
            return Stop::Idle(until);
        }
        let event = self.enter();
        self.pause.look(self.fd.get_kvm_run(), monotonic);
        match event {
            Event::Handled => Stop::Exit,
            Event::Owes => between_turns(),
            Event::Kicked => Stop::Kicked,
            Event::Out { port, width, value } => self.output(port, width, value),
            Event::Broken(kind) => self.broken(kind),
        }
    }

    /// Runs the guest until its next exit.
    fn enter(&mut self) -> Event {
        match self.fd.run() {
            Ok(VcpuExit::IoOut(port, data)) => {
                let mut value = [0; 4];
                let width = data.len();
                value[..width.min(4)].copy_from_slice(&data[..width.min(4)]);
                Event::Out { port, width, value: u32::from_le_bytes(value) }
            }
            Ok(VcpuExit::IoIn(port, data)) => match self.vm.serial_read(port, data) {
                true => Event::Handled,
                false => Event::Broken(FaultKind::Port { port, width: data.len() }),
            },
            Ok(VcpuExit::MmioRead(address, data)) => match self.vm.mmio_read(address, data) {
                true => Event::Handled,
                false => Event::Broken(FaultKind::Unmapped { address, write: false }),
            },
            Ok(VcpuExit::MmioWrite(address, data)) => match self.vm.mmio_write(address, data) {
                Some(Written::Done) => Event::Handled,
                Some(left) => {
                    self.debt.written(address, data, left);
                    Event::Owes
                }
                None => Event::Broken(FaultKind::Unmapped { address, write: true }),
            },
            Ok(VcpuExit::Intr) => Event::Kicked,
            Ok(VcpuExit::Shutdown) => Event::Broken(FaultKind::TripleFault),
            Ok(VcpuExit::Unsupported(reason)) => match HostExit::of(reason) {
                // The vCPU pauses before it is entered again.
                Some(HostExit::BusLock) => Event::Handled,
                Some(HostExit::NoWindow) => Event::Broken(FaultKind::NoWindow),
                None => Event::Broken(FaultKind::Kvm(format!("exit {reason}"))),
            },
            Ok(other) => Event::Broken(FaultKind::Kvm(format!("exit {other:?}"))),
            Err(e) if e.errno() == libc::EINTR || e.errno() == libc::EAGAIN => Event::Kicked,
            Err(e) => Event::Broken(FaultKind::Kvm(e.to_string())),
        }
    }

    /// The spot where the guest spins, if it does.
    fn spot(&self, registers: &kvm_regs) -> Option<Spot> {
        // Guest memory is mapped one to one.
        let start = registers.rip.saturating_sub(LOOP_MAX as u64);
        let next = (registers.rip - start) as usize;
        let mut code = [0; LOOP_MAX + AHEAD];
        let length = self.vm.memory().read(&mut code[..next + AHEAD], GuestAddress(start)).ok()?;
        Some(Spin::around(&code[..length], next)?.spot(start, registers))
    }

    /// Handles a port write: a doorbell, the serial port, or an exception stub.
    fn output(&mut self, port: u16, width: usize, value: u32) -> Stop {
        match (port, width) {
            (port::YIELD, 4) => self.yields(value),
            (port::IDLE, 4) => self.idles(Queues::unpack(value)),
            (port::KICK, 4) => self.kicks(value),
            (port::GATE, 4) => {
                self.at_gate = true;
                Stop::Exit
            }
            (port::CONSOLE, 4) => self.prints(value),
            (port::PROGRESS, 4) => {
                self.vm.milestone(value);
                Stop::Exit
            }
            (port::RESULT, 4) => self.reports(),
            (port::EXIT, 4) => self.end(Outcome::Exit(value)),
            (SERIAL..=SERIAL_LAST, 1) => {
                self.vm.serial_write(port - SERIAL, value as u8);
                Stop::Exit
            }
            (port::FAULT..=FAULT_LAST, 1) => self.faults((port - port::FAULT) as u8),
            _ => self.broken(FaultKind::Port { port, width }),
        }
    }

    fn yields(&mut self, value: u32) -> Stop {
        let Some(hint) = stile_abi::Hint::unpack(value) else {
            return self.breaks_abi("yield", format!("value {value:#x} is no hint"));
        };
        let wait = match hint.kind {
            HintKind::Unknown => Some(Wait::Unknown),
            HintKind::Lock { holder } => self.vm.member(u32::from(holder)).map(Wait::Lock),
            HintKind::Message { peer } => self.vm.member(u32::from(peer)).map(Wait::Message),
        };
        match wait {
            Some(wait) => Stop::Yield(Yield { wait, again: hint.again }),
            None => self.breaks_abi("yield", format!("{:?} names a vCPU the VM does not have", hint.kind)),
        }
    }

    fn idles(&mut self, queues: Queues) -> Stop {
        let more = if queues.is_empty() { Some(queues) } else { self.vm.serve(queues) };
        let Some(more) = more else {
            return self.breaks_abi("idle", "the VM has no network device to serve".into());
        };
        let until = match self.argument(0) {
            NO_DEADLINE => Time::NEVER,
            tsc => self.vm.clock().time_of(tsc),
        };
        if more.is_empty() {
            return Stop::Idle(until);
        }
        self.debt.idles_after(more, until);
        between_turns()
    }

    fn kicks(&mut self, target: u32) -> Stop {
        if target == KICK_OTHERS {
            self.debt.kicks_others();
            return self.debt.pay(&self.vm, self.index).unwrap_or(Stop::Exit);
        } else if target < self.vm.vcpus() {
            self.vm.wake(target);
        } else {
            return self.breaks_abi("kick", format!("the VM has no vCPU {target}"));
        }
        Stop::Exit
    }

    fn prints(&mut self, length: u32) -> Stop {
        if length > CONSOLE_MAX {
            return self.breaks_abi("console", format!("{length} bytes, more than {CONSOLE_MAX}"));
        }
        let mut text = [0; CONSOLE_MAX as usize];
        let text = &mut text[..length as usize];
        let from = self.argument(0);
        if self.vm.memory().read_slice(text, GuestAddress(from)).is_err() {
            return self.breaks_abi("console", format!("{length} bytes at {from:#x} are not all memory"));
        }
        let mut console = self.vm.console().lock().unwrap_or_else(PoisonError::into_inner);
        // The console drops what it cannot print.
        let _ = console.write_all(text);
        Stop::Exit
    }

    fn reports(&mut self) -> Stop {
        let (from, length, value) = (self.argument(0), self.argument(1), self.argument(2));
        let mut name = [0; NAME_MAX as usize];
        let Some(name) = name.get_mut(..length as usize) else {
            return self.breaks_abi("result", format!("a name of {length} bytes, more than {NAME_MAX}"));
        };
        if self.vm.memory().read_slice(name, GuestAddress(from)).is_err() {
            return self.breaks_abi("result", format!("the name at {from:#x} is not memory"));
        }
        match std::str::from_utf8(name) {
            Ok(name) if self.vm.add_result(name, value) => Stop::Exit,
            Ok(_) => self.breaks_abi("result", format!("more than {RESULTS_MAX} results")),
            Err(_) => self.breaks_abi("result", "the name is not UTF-8".into()),
        }
    }

    /// A word of this vCPU's call block.
    fn argument(&self, n: u64) -> u64 {
        let at = GuestAddress(self.vm.layout().call_block(self.index) + 8 * n);
        self.vm.memory().read_obj(at).expect("the layout puts call blocks inside memory")
    }

    /// Handles an exception that has reached its ring-0 stub. The CPU's frame lies on the exception stack. The program
    /// may write to the ports of the stubs as to any other port, but it cannot execute the stubs.
    fn faults(&mut self, vector: u8) -> Stop {
        let regs = self.fd.get_regs().ok();
        if regs.is_some_and(|r| !(STUBS..STUBS + PAGE).contains(&r.rip)) {
            return self.broken(FaultKind::Port { port: port::FAULT + u16::from(vector), width: 1 });
        }
        let rsp = regs.map(|r| r.rsp);
        let word = |n: u64| self.vm.memory().read_obj::<u64>(GuestAddress(rsp?.checked_add(8 * n)?)).ok();
        let error = if has_error_code(vector) { word(0) } else { None };
        let rip = word(u64::from(has_error_code(vector)));
        let address = if vector == 14 { self.fd.get_sregs().map(|s| s.cr2).ok() } else { None };
        let kind = FaultKind::Exception { vector, error, address };
        self.end(Outcome::Fault(Fault { vcpu: self.index, rip, kind }))
    }

    fn breaks_abi(&mut self, name: &'static str, why: String) -> Stop {
        self.broken(FaultKind::Doorbell { name, why })
    }

    fn broken(&mut self, kind: FaultKind) -> Stop {
        let rip = self.fd.get_regs().map(|r| r.rip).ok();
        self.end(Outcome::Fault(Fault { vcpu: self.index, rip, kind }))
    }

    /// Ends this vCPU, and the VM with this outcome unless it has ended already.
    fn end(&mut self, outcome: Outcome) -> Stop {
        self.vm.end(outcome);
        Stop::Done
    }
}
