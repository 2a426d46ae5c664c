//! What this host is, for every report: a comparison is worth nothing without it.
//!
//! There are facts only; [`super::doctor`] draws the conclusions. What the kernel writes in `/proc` and `/sys` is read
//! below a [`HostRoot`]. What must be tried on the running host is a [`Live`] answer. Reading never fails: a fact that
//! the host does not tell is absent.

use serde::Serialize;

use super::CpuList;
use super::cpu::{CpuFacts, allowed_cpus};
use super::kvm::{self, Capability, KvmFacts, KvmUnavailable};
use super::realtime::{RealtimeFacts, try_fifo};
use super::root::HostRoot;
use stile_jail::{Offer, as_carrier};
use stile_sched::kick::Departure;

/// Commit that this binary was built from, "unknown" outside a git checkout.
pub const COMMIT: &str = env!("STILE_COMMIT");

/// This host.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostFacts {
    /// Its CPUs.
    pub cpu: CpuFacts,
    /// Its kernel.
    pub kernel: KernelFacts,
    /// Its KVM.
    pub kvm: KvmFacts,
    /// Its real-time scheduling class.
    pub realtime: RealtimeFacts,
    /// Why a thread cannot be notified when it leaves its CPU; `None`: it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub departures_refused: Option<String>,
    /// What its kernel offers for a jail.
    pub jail: Offer,
    /// Its memory.
    pub memory: MemoryFacts,
    /// Load averages over 1, 5 and 15 minutes.
    pub load: Option<[f64; 3]>,
    /// Time for which a host above ran something else, since boot and over all CPUs (units: ticks of 10 ms).
    pub steal_ticks: Option<u64>,
    /// Commit that stile was built from.
    pub commit: &'static str,
}

/// The host's kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KernelFacts {
    /// Release, as `uname -r` says; "unknown" if it cannot be read.
    pub release: String,
    /// Its clock source.
    pub clocksource: Option<String>,
    /// Whether a session's threads share one place among the kernel's own, see [`super::AutogroupsOff`].
    pub autogroups: bool,
}

/// The host's memory (units: bytes).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryFacts {
    /// All of it.
    pub total: Option<u64>,
    /// The part that can be used without swapping.
    pub available: Option<u64>,
}

/// Answers that only the running host gives.
#[derive(Debug)]
pub struct Live {
    /// The CPUs that this process may use.
    pub allowed: CpuList,
    /// KVM's capabilities, or why there is no KVM.
    pub kvm: Result<Vec<Capability>, KvmUnavailable>,
    /// Why SCHED_FIFO is refused, if it is.
    pub fifo_refused: Option<String>,
    /// Why a counter of context switches is refused, if it is.
    pub departures_refused: Option<String>,
    /// What the kernel offers for a jail.
    pub jail: Offer,
}

impl Live {
    /// Asks the running host. Opens KVM once and starts threads that end at once; leaves nothing behind. What threads
    /// that run vCPUs may do is asked with the capabilities that the jail leaves them.
    pub fn ask() -> Self {
        Self {
            allowed: allowed_cpus().unwrap_or_default(),
            kvm: kvm::probe(),
            fifo_refused: as_carrier(try_fifo).err().map(|error| error.to_string()),
            departures_refused: as_carrier(Departure::for_this_thread).err().map(|error| error.to_string()),
            jail: Offer::of_kernel(),
        }
    }
}

impl HostFacts {
    /// The facts of the running host.
    pub fn gather() -> Self {
        Self::read(&HostRoot::default(), Live::ask())
    }

    /// The facts of the host at `root`, with the answers of `live`.
    pub fn read(root: &HostRoot, live: Live) -> Self {
        let cpu = CpuFacts::read(root, live.allowed);
        Self {
            kernel: KernelFacts {
                release: root.text("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".to_owned()),
                clocksource: root.text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
                autogroups: root.text("/proc/sys/kernel/sched_autogroup_enabled").as_deref() == Some("1"),
            },
            kvm: KvmFacts::read(root, &cpu, live.kvm),
            realtime: RealtimeFacts::read(root, live.fifo_refused),
            departures_refused: live.departures_refused,
            jail: live.jail,
            memory: memory(&root.text("/proc/meminfo").unwrap_or_default()),
            load: root.text("/proc/loadavg").as_deref().and_then(load),
            steal_ticks: root.text("/proc/stat").as_deref().and_then(steal_ticks),
            commit: COMMIT,
            cpu,
        }
    }
}

impl KernelFacts {
    /// Major and minor version.
    pub fn version(&self) -> Option<(u32, u32)> {
        version(&self.release)
    }
}

/// Linux version from which a vCPU's file descriptor may move between threads without a wait in the kernel.
pub(super) const FREE_VCPU_FDS: (u32, u32) = (6, 13);

/// Whether the running kernel lets vCPUs change threads without a wait. An unreadable release is taken for an old one.
pub fn vcpus_move_freely() -> bool {
    let uname = rustix::system::uname();
    uname.release().to_str().ok().and_then(version).is_some_and(|version| version >= FREE_VCPU_FDS)
}

/// Major and minor version of a kernel release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn memory(meminfo: &str) -> MemoryFacts {
    let bytes = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        let kilobytes: u64 = line.strip_prefix(':')?.trim().strip_suffix(" kB")?.parse().ok()?;
        kilobytes.checked_mul(1024)
    };
    MemoryFacts { total: bytes("MemTotal"), available: bytes("MemAvailable") }
}

fn load(loadavg: &str) -> Option<[f64; 3]> {
    let mut words = loadavg.split_whitespace().map(str::parse);
    Some([words.next()?.ok()?, words.next()?.ok()?, words.next()?.ok()?])
}

/// The eighth number of the first line, which adds up all CPUs.
fn steal_ticks(stat: &str) -> Option<u64> {
    stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{FakeHost, live};

    #[test]
    fn facts_of_a_made_up_host_are_those_in_its_files() {
        let facts = HostFacts::read(&FakeHost::vmx().root(), live());
        assert_eq!(facts.kernel.release, "6.18.1-generic");
        assert_eq!(facts.kernel.version(), Some((6, 18)));
        assert_eq!(facts.kernel.clocksource.as_deref(), Some("tsc"));
        assert_eq!(facts.kvm.halt_poll_ns, Some(200_000));
        assert_eq!(facts.load, Some([0.25, 0.5, 1.0]));
        assert_eq!(facts.steal_ticks, Some(37));
        assert_eq!(facts.memory, MemoryFacts { total: Some(16 << 30), available: Some(8 << 30) });
        assert_eq!(facts.realtime.runtime_us, Some(950_000));
    }

    #[test]
    fn host_that_tells_nothing_gives_absent_facts() {
        let facts = HostFacts::read(&FakeHost::empty().root(), live());
        assert_eq!(facts.kernel.release, "unknown");
        assert_eq!(facts.kernel.version(), None);
        assert_eq!((facts.load, facts.steal_ticks, facts.memory.total), (None, None, None));
    }

    #[test]
    fn facts_as_json_name_backend_and_capabilities() {
        let facts = HostFacts::read(&FakeHost::pvm().root(), live());
        let json = serde_json::to_value(&facts).unwrap();
        assert_eq!(json["kvm"]["backend"], "pvm");
        assert_eq!(json["kvm"]["capabilities"][0]["name"], "KVM_CAP_USER_MEMORY");
        assert_eq!(json["cpu"]["allowed"], serde_json::json!([0, 1, 2, 3]));
        assert!(json["commit"].is_string());
    }
}
