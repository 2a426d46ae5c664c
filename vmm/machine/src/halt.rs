//! vCPUs whose interrupt controller is in the kernel: seeing that one waits inside KVM_RUN, and waiting there without
//! running it.
//!
//! Such a vCPU halts without an exit; KVM only notes it (`mp_state`) and blocks the thread. What a scheduler needs beyond
//! KVM_RUN:
//! * [`Halting::is_halted`]: after a kick, whether it waits. The note outlives the kick, so the next KVM_RUN goes on waiting.
//! * [`Halting::doze`]: to wait for what ends the halt, and leave it at that. KVM_RUN would run the guest at once, without a
//!   pCPU. But for a vCPU that is noted as *uninitialized* it waits for the same things and returns EAGAIN: so that is what
//!   a halted vCPU is called while it dozes. KVM decides what ends a halt, before and after; nothing of the guest's state
//!   is looked at or changed but the note.
//!
//! Two cases in which that would not do:
//! * A vCPU that waits for its start-up interrupt (*init received*) would lose it: KVM drops one that comes in another
//!   state. Such a vCPU is looked at now and then, the less often the longer it waits.
//! * On Intel hosts the LAPIC's timer may be one that only counts while KVM runs or halts the vCPU; there the doze has a
//!   timer of its own (`halt/lapic.rs`).

mod lapic;

use kvm_bindings::{
    KVM_CAP_HALT_POLL, KVM_MP_STATE_HALTED, KVM_MP_STATE_INIT_RECEIVED, KVM_MP_STATE_RUNNABLE,
    KVM_MP_STATE_UNINITIALIZED, kvm_enable_cap, kvm_mp_state,
};
use kvm_ioctls::{Error, VcpuFd, VmFd};
use std::sync::OnceLock;
use stile_sched::kick;
use stile_sched::time::monotonic;
use stile_sched::{Nanos, Time};

/// Between the first two looks at a vCPU that waits for its start-up interrupt; it comes within 10 ms of the INIT, mostly.
const LOOK: Nanos = Nanos::from_micros(500);
/// Between the last two: 64 such vCPUs cost less than 1 % of a CPU.
const LOOK_MAX: Nanos = Nanos::from_millis(64);

/// How one vCPU waits.
#[derive(Debug)]
pub struct Halting {
    /// KVM does not keep the LAPIC's time in a doze.
    keeps_time: bool,
    /// Of the thread that dozes.
    timer: Option<kick::Timer>,
}

impl Default for Halting {
    fn default() -> Self {
        Self { keeps_time: *has_preemption_timer(), timer: None }
    }
}

impl Halting {
    /// Keeps the LAPIC's time itself, on whatever host.
    pub fn keeping_time() -> Self {
        Self { keeps_time: true, timer: None }
    }

    /// Whether the vCPU, which has just come out of KVM_RUN, would wait there.
    pub fn is_halted(fd: &VcpuFd) -> bool {
        state(fd).is_some_and(|state| state != KVM_MP_STATE_RUNNABLE)
    }

    /// Waits until there is what ends the halt; true then. False: a kick came first. The guest does not run.
    pub fn doze(&mut self, fd: &mut VcpuFd) -> bool {
        match state(fd) {
            Some(KVM_MP_STATE_HALTED) => {
                if set_state(fd, KVM_MP_STATE_UNINITIALIZED).is_err() {
                    // Then it runs now and then to find out.
                    return !kick::wait(LOOK_MAX);
                }
                let awake = self.wait(fd);
                // An INIT may have come, which has made it something else.
                if state(fd) == Some(KVM_MP_STATE_UNINITIALIZED) {
                    // It was set before, so it can be.
                    let _ = set_state(fd, KVM_MP_STATE_HALTED);
                }
                awake
            }
            Some(KVM_MP_STATE_UNINITIALIZED) => self.wait(fd),
            Some(KVM_MP_STATE_INIT_RECEIVED) => waits_for_start(fd),
            _ => true,
        }
    }

    /// Waits inside KVM_RUN, which does not run an uninitialized vCPU.
    fn wait(&mut self, fd: &mut VcpuFd) -> bool {
        let until = self.deadline(fd);
        if until <= monotonic() {
            return true;
        }
        if until != Time::NEVER
            && let Some(timer) = &self.timer
        {
            timer.set(until);
        }
        let kicked = matches!(fd.run(), Err(e) if e.errno() == libc::EINTR);
        !kicked || until <= monotonic()
    }

    /// When the LAPIC's timer fires, if this has to see to it.
    fn deadline(&mut self, fd: &VcpuFd) -> Time {
        if !self.keeps_time {
            return Time::NEVER;
        }
        let Some(span) = lapic::fires_in(fd) else { return Time::NEVER };
        if self.timer.is_none() {
            self.timer = kick::Timer::for_this_thread().ok();
        }
        // Without a timer to wait for it, the guest goes on at once and halts again.
        if self.timer.is_some() { monotonic() + span } else { monotonic() }
    }
}

/// Sets how long KVM spins for a vCPU of this VM that has halted before it lets its thread sleep. KVM without the capability
/// keeps to the setting of the host.
pub fn set_poll(vm: &VmFd, span: Nanos) -> Result<(), Error> {
    if vm.check_extension_raw(KVM_CAP_HALT_POLL.into()) <= 0 {
        return Ok(());
    }
    let args = [span.0, 0, 0, 0];
    vm.enable_cap(&kvm_enable_cap { cap: KVM_CAP_HALT_POLL, args, ..kvm_enable_cap::default() })
}

/// Looks at a vCPU between INIT and its start-up interrupt, which the look lets it take.
fn waits_for_start(fd: &VcpuFd) -> bool {
    let mut pause = LOOK;
    while state(fd) == Some(KVM_MP_STATE_INIT_RECEIVED) {
        if kick::wait(pause) {
            return false;
        }
        pause = Nanos(2 * pause.0).min(LOOK_MAX);
    }
    true
}

fn state(fd: &VcpuFd) -> Option<u32> {
    fd.get_mp_state().ok().map(|state| state.mp_state)
}

fn set_state(fd: &VcpuFd, state: u32) -> Result<(), Error> {
    fd.set_mp_state(kvm_mp_state { mp_state: state })
}

/// Whether this host's KVM may keep LAPIC timers by the CPU's own, which stops where the vCPU does not run.
fn has_preemption_timer() -> &'static bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    let parameter = "/sys/module/kvm_intel/parameters/preemption_timer";
    HAS.get_or_init(|| std::fs::read_to_string(parameter).is_ok_and(|value| value.trim() == "Y"))
}
