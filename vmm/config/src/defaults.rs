//! Defaults of the configuration that more than one place reads.

use std::num::NonZeroU16;
use std::time::Duration;

use super::values::{CapPeriod, HaltPoll, MemorySize, PolicyTime, StarvationBound};

/// Quota of nice 0. RSDL's own value; quotas of 3 to 6 ms cost computing guests at most 1 %, 1 ms costs 7 %.
pub const RR_INTERVAL: PolicyTime = PolicyTime::from_const(Duration::from_millis(6));

/// The most pCPUs under one lock: one lock serves 40 to 70 (docs/scaling.md).
pub const SHARD_PCPUS: NonZeroU16 = NonZeroU16::new(16).expect("it is not zero");

/// CFS' sched_latency on eight CPUs or more (Linux 2.6.23 to 6.5, kernel/sched/fair.c).
pub const TARGET_LATENCY: PolicyTime = PolicyTime::from_const(Duration::from_millis(24));

/// CFS' sched_min_granularity on eight CPUs or more: a host of 250 Hz switches hogs every 4 ms.
pub const LEAST_QUOTA: PolicyTime = PolicyTime::from_const(Duration::from_millis(3));

/// No bound by default: none suits every number of vCPUs.
pub const STARVATION_BOUND: StarvationBound = StarvationBound::from_const(None);

/// `auto`: it depends on the number of vCPUs.
pub const HALT_POLL: HaltPoll = HaltPoll::from_const(None);

/// Enough for every built-in guest.
pub const UNIKERNEL_MEMORY: MemorySize = MemorySize::from_const(16 << 20);
/// Enough for a distribution's kernel with an initramfs of some 10 MiB.
pub const LINUX_MEMORY: MemorySize = MemorySize::from_const(256 << 20);

/// Default of `vcpus`.
pub const VCPUS: u32 = 1;

/// Default of `cap_period`: the kernel's default for `cpu.max`.
pub const CAP_PERIOD: CapPeriod = CapPeriod::from_const(Duration::from_millis(100));

/// Default of `count`.
pub const COUNT: u32 = 1;

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

impl Default for PolicyTime {
    fn default() -> Self {
        RR_INTERVAL
    }
}

impl Default for StarvationBound {
    fn default() -> Self {
        STARVATION_BOUND
    }
}
