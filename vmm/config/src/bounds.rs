//! The least and the most of each value in a configuration. The schema, the checker and the reference page read them
//! here. Memory is in bytes, time in `Duration`.

use std::time::Duration;

/// Shortest time of a policy: shorter quotas cost more in kicks than they gain in responsiveness.
pub(crate) const POLICY_TIME_MIN: Duration = Duration::from_micros(100);

/// Longest time of a policy: with longer quotas a guest looks dead while its vCPUs wait.
pub(crate) const POLICY_TIME_MAX: Duration = Duration::from_secs(5);

/// Shortest `starvation_bound`: some turns of the default length.
pub(crate) const STARVATION_BOUND_MIN: Duration = Duration::from_millis(100);

/// Longest `starvation_bound`.
pub(crate) const STARVATION_BOUND_MAX: Duration = Duration::from_secs(3600);

/// Longest `halt_poll`: with more, a halted vCPU takes as much CPU time as one that computes.
pub(crate) const HALT_POLL_MAX: Duration = Duration::from_millis(10);

/// Least memory of a VM: boot structures end at 2 MiB and an image starts there.
pub(crate) const MEMORY_MIN: u64 = 4 << 20;

/// Most memory of a VM.
pub(crate) const MEMORY_MAX: u64 = 64 << 30;

/// Most memory of a unikernel: the MMIO window lies above it.
pub(crate) const UNIKERNEL_MEMORY_MAX: u64 = stile_abi::MEMORY_MAX;

/// Most vCPUs of a VM; KVM's own limit on x86-64.
pub(crate) const VCPUS_MAX: u32 = 1024;

/// Most vCPUs of a Linux guest.
pub(crate) const LINUX_VCPUS_MAX: u32 = 64;

/// Strongest `nice`, as in the host's own scheduler.
pub(crate) const NICE_MIN: i8 = -20;

/// Weakest `nice`.
pub(crate) const NICE_MAX: i8 = 19;

/// Least `cap` (unit: CPUs): with the shortest period it is the shortest turn that is worth its switch, 100 us.
pub(crate) const CAP_MIN: f64 = 0.01;

/// Most CPUs of a `cap`: no VM has more vCPUs.
pub(crate) const CAP_MAX: f64 = VCPUS_MAX as f64;

/// Shortest `cap_period`: below it turns are too short for what they cost.
pub(crate) const CAP_PERIOD_MIN: Duration = Duration::from_millis(10);

/// Longest `cap_period`: a vCPU may be held back for one and a half periods.
pub(crate) const CAP_PERIOD_MAX: Duration = Duration::from_secs(1);

/// Most copies of one `[[vm]]`: a typing mistake must not start a million VMs.
pub(crate) const COUNT_MAX: u32 = 1000;

/// Longest command line (units: bytes). A unikernel's page has room for less. A Linux kernel has a limit of its own:
/// 2047 on x86-64.
pub(crate) const CMDLINE_MAX: usize = 4096;

/// Longest VM name (units: bytes).
pub(crate) const NAME_MAX: usize = 64;

/// Shortest span that a request names.
pub(crate) const SPAN_MIN: Duration = Duration::from_millis(1);

/// Longest span that a request names: what waits longer is for a person to end.
pub(crate) const SPAN_MAX: Duration = Duration::from_secs(86_400);
