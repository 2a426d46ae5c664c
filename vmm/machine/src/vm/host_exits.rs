//! Exits that KVM makes for the sake of the host and not of the guest, where CPU and kernel offer them.
//!
//! * A bus lock: an access with a lock prefix that crosses two cache lines, or goes to memory that is not cached, stops
//!   the memory of the whole machine for about a microsecond. The vCPU that made one pauses, so that a guest cannot
//!   make the machine slow by making many. Linux 5.12.
//! * No window: the guest has kept the CPU from taking interrupts by an instruction that does not end, and so from
//!   noticing a kick. That ends its VM. Linux 6.0, on Intel's CPUs.

use kvm_bindings::{
    KVM_BUS_LOCK_DETECTION_EXIT, KVM_CAP_X86_BUS_LOCK_EXIT, KVM_CAP_X86_NOTIFY_VMEXIT, KVM_EXIT_NOTIFY,
    KVM_EXIT_X86_BUS_LOCK, KVM_RUN_X86_BUS_LOCK, KVM_X86_NOTIFY_VMEXIT_ENABLED, KVM_X86_NOTIFY_VMEXIT_USER,
    kvm_enable_cap, kvm_run,
};
use kvm_ioctls::VmFd;
use stile_sched::{Nanos, Time};

/// How long a vCPU pauses after bus locks. It can so take about a thousandth of the machine's memory bandwidth.
const PAUSE: Nanos = Nanos::from_millis(1);
/// How long the CPU waits for a window (units: TSC ticks), besides what it allows itself.
const WINDOW: u64 = 1 << 17;

/// An exit for the host's sake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostExit {
    /// The guest made a bus lock.
    BusLock,
    /// The guest kept the CPU from taking interrupts.
    NoWindow,
}

impl HostExit {
    /// The exit of this reason, if it is one for the host's sake.
    pub(crate) fn of(reason: u32) -> Option<Self> {
        match reason {
            KVM_EXIT_X86_BUS_LOCK => Some(Self::BusLock),
            KVM_EXIT_NOTIFY => Some(Self::NoWindow),
            _ => None,
        }
    }
}

/// Asks KVM for these exits of a VM without vCPUs. A kernel or CPU that does not offer one refuses, and then there is
/// none.
pub(crate) fn ask_for(vm: &VmFd) {
    let window = WINDOW << 32 | u64::from(KVM_X86_NOTIFY_VMEXIT_ENABLED | KVM_X86_NOTIFY_VMEXIT_USER);
    let asked =
        [(KVM_CAP_X86_BUS_LOCK_EXIT, u64::from(KVM_BUS_LOCK_DETECTION_EXIT)), (KVM_CAP_X86_NOTIFY_VMEXIT, window)];
    for (cap, how) in asked {
        let _ = vm.enable_cap(&kvm_enable_cap { cap, args: [how, 0, 0, 0], ..kvm_enable_cap::default() });
    }
}

/// The pause that a vCPU makes after a bus lock. Nothing that wakes the vCPU ends it.
#[derive(Debug, Default)]
pub(crate) struct Pause(Option<Time>);

impl Pause {
    /// Looks whether the guest has made a bus lock. KVM tells it with whatever exit there was.
    #[inline]
    pub(crate) fn look(&mut self, run: &mut kvm_run, now: impl FnOnce() -> Time) {
        let told = KVM_RUN_X86_BUS_LOCK as u16;
        if run.flags & told != 0 {
            run.flags &= !told;
            self.0 = Some(now() + PAUSE);
        }
    }

    /// Until when the vCPU pauses, if it does.
    #[inline]
    pub(crate) fn left(&mut self, now: impl FnOnce() -> Time) -> Option<Time> {
        self.0 = self.0.filter(|until| *until > now());
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Time = Time(1_000_000);

    fn run(flags: u32) -> kvm_run {
        kvm_run { flags: flags as u16, ..kvm_run::default() }
    }

    #[test]
    fn the_exits_are_told_by_their_reasons_and_no_other_is_one() {
        assert_eq!(HostExit::of(33), Some(HostExit::BusLock));
        assert_eq!(HostExit::of(37), Some(HostExit::NoWindow));
        for reason in (0..33).chain(34..37).chain(38..64) {
            assert_eq!(HostExit::of(reason), None, "{reason}");
        }
    }

    #[test]
    fn a_bus_lock_makes_the_vcpu_pause_once_whatever_its_exit_was() {
        let mut pause = Pause::default();
        // Another flag: the vCPU is in system management mode.
        let mut exit = run(KVM_RUN_X86_BUS_LOCK | 1);
        pause.look(&mut exit, || START);
        assert_eq!(exit.flags, 1, "the next exit does not tell it again");
        for (after, left) in [(0, true), (999_999, true), (1_000_000, false), (2_000_000, false)] {
            let now = START + Nanos(after);
            assert_eq!(pause.left(|| now), left.then_some(START + PAUSE), "{after}");
        }
    }

    #[test]
    fn many_bus_locks_make_one_pause_after_the_last_and_none_makes_none() {
        let mut pause = Pause::default();
        pause.look(&mut run(1), || panic!("no bus lock"));
        assert_eq!(pause.left(|| panic!("no pause")), None);
        for at in [START, START + Nanos::from_micros(10)] {
            pause.look(&mut run(KVM_RUN_X86_BUS_LOCK), || at);
        }
        assert_eq!(pause.left(|| START), Some(START + Nanos::from_micros(10) + PAUSE));
    }
}
