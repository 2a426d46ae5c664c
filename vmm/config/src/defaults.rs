//! Bounds and defaults of the configuration.
//!
//! This file holds all bounds, and the defaults that more than one place reads. The schema, the checker and the
//! reference page read them from here. The defaults of `[policy]` stand beside its keys.

use std::time::Duration;

use super::values::{CapPeriod, HaltPoll, MemorySize, RrInterval, StarvationBound};

/// Shortest `rr_interval`: shorter quotas cost more in kicks than they gain in responsiveness.
pub const RR_INTERVAL_MIN: RrInterval = RrInterval::from_const(Duration::from_micros(100));
/// Longest `rr_interval`: with longer quotas a guest looks dead while its vCPUs wait.
pub const RR_INTERVAL_MAX: RrInterval = RrInterval::from_const(Duration::from_secs(5));
/// Quota of nice 0. RSDL's own value; quotas of 3 to 6 ms cost computing guests at most 1 %, 1 ms costs 7 %.
pub const RR_INTERVAL: RrInterval = RrInterval::from_const(Duration::from_millis(6));

/// Shortest `starvation_bound`: some turns of the default length.
pub const STARVATION_BOUND_MIN: Duration = Duration::from_millis(100);
/// Longest `starvation_bound`.
pub const STARVATION_BOUND_MAX: Duration = Duration::from_secs(3600);
/// No bound by default: none suits every number of vCPUs.
pub const STARVATION_BOUND: StarvationBound = StarvationBound::from_const(None);

/// Longest `halt_poll`: with more, a halted vCPU takes as much CPU time as one that computes.
pub const HALT_POLL_MAX: Duration = Duration::from_millis(10);
/// `auto`: it depends on the number of vCPUs.
pub const HALT_POLL: HaltPoll = HaltPoll::from_const(None);

/// Least memory of a VM: boot structures end at 2 MiB and an image starts there.
pub const MEMORY_MIN: MemorySize = MemorySize::from_const(4 << 20);
/// Most memory of a VM.
pub const MEMORY_MAX: MemorySize = MemorySize::from_const(64 << 30);
/// Most memory of a unikernel: the MMIO window lies above it.
pub const UNIKERNEL_MEMORY_MAX: MemorySize = MemorySize::from_const(stile_abi::MEMORY_MAX);
/// Enough for every built-in guest.
pub const UNIKERNEL_MEMORY: MemorySize = MemorySize::from_const(16 << 20);
/// Enough for a distribution's kernel with an initramfs of some 10 MiB.
pub const LINUX_MEMORY: MemorySize = MemorySize::from_const(256 << 20);

/// Most vCPUs of a VM; KVM's own limit on x86-64.
pub const VCPUS_MAX: u32 = 1024;
/// Most vCPUs of a Linux guest.
pub const LINUX_VCPUS_MAX: u32 = 64;
/// Default of `vcpus`.
pub const VCPUS: u32 = 1;

/// Strongest `nice`, as in the host's own scheduler.
pub const NICE_MIN: i8 = -20;
/// Weakest `nice`.
pub const NICE_MAX: i8 = 19;

/// Least `cap` (unit: CPUs): with the shortest period it is the shortest turn that is worth its switch, 100 us.
pub const CAP_MIN: f64 = 0.01;
/// Most CPUs of a `cap`: no VM has more vCPUs.
pub const CAP_MAX: f64 = VCPUS_MAX as f64;
/// Shortest `cap_period`: below it turns are too short for what they cost.
pub const CAP_PERIOD_MIN: CapPeriod = CapPeriod::from_const(Duration::from_millis(10));
/// Longest `cap_period`: a vCPU may be held back for one and a half periods.
pub const CAP_PERIOD_MAX: CapPeriod = CapPeriod::from_const(Duration::from_secs(1));
/// Default of `cap_period`: the kernel's default for `cpu.max`.
pub const CAP_PERIOD: CapPeriod = CapPeriod::from_const(Duration::from_millis(100));

/// Most copies of one `[[vm]]`: a typing mistake must not start a million VMs.
pub const COUNT_MAX: u32 = 1000;
/// Default of `count`.
pub const COUNT: u32 = 1;

/// Longest command line (units: bytes). A unikernel's page has room for less. A Linux kernel has a limit of its own:
/// 2047 on x86-64.
pub const CMDLINE_MAX: usize = 4096;

/// Longest VM name (units: bytes).
pub const NAME_MAX: usize = 64;

pub(super) fn vcpus() -> u32 {
    VCPUS
}

pub(super) fn count() -> u32 {
    COUNT
}

impl Default for CapPeriod {
    fn default() -> Self {
        CAP_PERIOD
    }
}

impl Default for HaltPoll {
    fn default() -> Self {
        HALT_POLL
    }
}

impl Default for RrInterval {
    fn default() -> Self {
        RR_INTERVAL
    }
}

impl Default for StarvationBound {
    fn default() -> Self {
        STARVATION_BOUND
    }
}
