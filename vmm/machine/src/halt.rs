//! How a vCPU waits inside KVM_RUN if its interrupt controller is in the kernel: finding out that it does, and waiting
//! there without running the guest.
//!
//! Such a vCPU halts without an exit. KVM notes the halt in the vCPU's state (`mp_state`) and blocks the thread. A
//! scheduler needs two things beyond KVM_RUN:
//! * [`Halting::is_halted`] tells after a kick whether the vCPU waits. The note outlives the kick, so that the next
//!   KVM_RUN goes on waiting.
//! * [`Halting::doze`] waits for an event and does not run the guest. KVM_RUN would run it at once, without a pCPU. For
//!   a vCPU that is noted as *uninitialized*, however, KVM_RUN waits for the same events and then returns EAGAIN. So a
//!   halted vCPU is noted as uninitialized while it dozes. KVM decides what ends a halt, before and after. The note is
//!   the only part of the guest's state that is read or changed.
//!
//! Two cases need more:
//! * A vCPU that waits for its start-up interrupt (*init received*) would lose it, because KVM drops a start-up
//!   interrupt that comes in another state. Such a vCPU is looked at now and then, less often the longer it waits.
//! * On Intel hosts the timer of the LAPIC may count only while KVM runs or halts the vCPU. There the doze has a timer
//!   of its own (`halt/lapic.rs`).

mod lapic;

use kvm_bindings::{
    KVM_CAP_HALT_POLL, KVM_MP_STATE_HALTED, KVM_MP_STATE_INIT_RECEIVED, KVM_MP_STATE_RUNNABLE,
    KVM_MP_STATE_UNINITIALIZED, kvm_enable_cap, kvm_mp_state,
};
use kvm_ioctls::{Error, VcpuFd, VmFd};
use lapic::LapicTimer;
use std::sync::OnceLock;
use stile_sched::kick::{self, ThreadId};
use stile_sched::time::monotonic;
use stile_sched::{Nanos, Time};

/// Time between the first two looks at a vCPU that waits for its start-up interrupt. It mostly comes within 10 ms of
/// the INIT.
const LOOK: Nanos = Nanos::from_micros(500);
/// Time between the last two looks: 64 such vCPUs cost less than 1 % of a CPU.
const LOOK_MAX: Nanos = Nanos::from_millis(64);

/// Lets the thread of one vCPU wait.
#[derive(Debug)]
pub struct Halting {
    /// If KVM stops the LAPIC's timer during a doze.
    keeps_time: Option<LapicTimer>,
    /// Wakes the dozing thread at the LAPIC's deadline. It is that thread's alone.
    timer: Option<(ThreadId, kick::Timer)>,
    /// The note, if it has been read since the vCPU left KVM_RUN, and no doze has begun.
    noted: Option<u32>,
}

impl Default for Halting {
    fn default() -> Self {
        Self { keeps_time: has_preemption_timer().then(LapicTimer::default), timer: None, noted: None }
    }
}

impl Halting {
    /// Keeps the LAPIC's time itself, on any host.
    pub fn keeping_time() -> Self {
        Self { keeps_time: Some(LapicTimer::default()), timer: None, noted: None }
    }

    /// Whether the vCPU, which has just left KVM_RUN, was waiting there.
    pub fn is_halted(&mut self, fd: &VcpuFd) -> bool {
        self.noted = state(fd);
        self.noted.is_some_and(|state| state != KVM_MP_STATE_RUNNABLE)
    }

    /// Waits for an event that ends the halt, and returns true. Returns false if a kick came first. The guest does not
    /// run.
    pub fn doze(&mut self, fd: &mut VcpuFd) -> bool {
        // KVM changes the note only inside its calls. An INIT that has come meanwhile ends the wait below, and shows
        // then.
        match self.noted.take().or_else(|| state(fd)) {
            Some(KVM_MP_STATE_HALTED) => {
                if set_state(fd, KVM_MP_STATE_UNINITIALIZED).is_err() {
                    // After that it runs from time to time to find out.
                    return !kick::wait(LOOK_MAX);
                }
                let awake = self.wait(fd);
                // An INIT may have come and changed the state.
                if state(fd) == Some(KVM_MP_STATE_UNINITIALIZED) {
                    // The state was set before, so KVM accepts it again.
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
            && let Some(timer) = self.timer_here()
        {
            timer.set(until);
        }
        let kicked = matches!(fd.run(), Err(e) if e.errno() == libc::EINTR);
        !kicked || until <= monotonic()
    }

    /// When the LAPIC's timer fires, if KVM does not keep its time here.
    fn deadline(&mut self, fd: &VcpuFd) -> Time {
        let Some(span) = self.keeps_time.as_mut().and_then(|timer| timer.fires_in(fd)) else { return Time::NEVER };
        // Without a timer that waits for the deadline, the guest goes on at once and halts again.
        if self.timer_here().is_some() { monotonic() + span } else { monotonic() }
    }

    /// The calling thread's timer. A vCPU changes its thread with its domain, and a timer of the former one wakes
    /// nobody.
    fn timer_here(&mut self) -> Option<&kick::Timer> {
        let here = kick::this_thread();
        if self.timer.as_ref().is_none_or(|(thread, _)| *thread != here) {
            self.timer = kick::Timer::for_this_thread().ok().map(|timer| (here, timer));
        }
        self.timer.as_ref().map(|(_, timer)| timer)
    }
}

/// Sets how long KVM polls for an event after a vCPU of this VM has halted, before the thread sleeps. A KVM without the
/// capability keeps the host's setting.
pub fn set_poll(vm: &VmFd, span: Nanos) -> Result<(), Error> {
    if vm.check_extension_raw(KVM_CAP_HALT_POLL.into()) <= 0 {
        return Ok(());
    }
    let args = [span.0, 0, 0, 0];
    vm.enable_cap(&kvm_enable_cap { cap: KVM_CAP_HALT_POLL, args, ..kvm_enable_cap::default() })
}

/// Looks at a vCPU between INIT and start-up interrupt. The look lets the vCPU take the interrupt.
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

/// Whether this host's KVM may use the CPU's own timer for the LAPIC's. That timer stops where the vCPU does not run.
fn has_preemption_timer() -> &'static bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    let parameter = "/sys/module/kvm_intel/parameters/preemption_timer";
    HAS.get_or_init(|| std::fs::read_to_string(parameter).is_ok_and(|value| value.trim() == "Y"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_of_a_vcpu_that_has_changed_its_thread_wakes_the_new_one() {
        let mut halting = Halting::keeping_time();
        let former = std::thread::spawn(move || {
            halting.timer_here().expect("the host gives a timer");
            halting
        });
        let mut halting = former.join().unwrap();
        kick::block();
        halting.timer_here().expect("the host gives a timer").set(monotonic() + Nanos::from_millis(1));
        assert!(kick::wait(Nanos::from_millis(60_000)), "nobody is woken");
    }
}
