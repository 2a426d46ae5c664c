//! The configuration as the rest of stile sees it.
//!
//! These types are the only description of the configuration file: their field comments are the reference, their
//! derived schema is what a file is checked against, and their `Deserialize` is what reads it. The first sentence of
//! a field comment says what the key does. Values were checked when they got here; nothing below parses or complains.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stile_sched::lock::LockRules;
use stile_sched::policy::goodness::YieldBugs;
use stile_sched::policy::rsdl::PoliteSwitches;

use super::algorithm::Algorithm;
use super::defaults;
use super::policy_keys;
use super::values::{
    CapPeriod, CpuCap, DiskConfig, FilePath, HaltPoll, ImageRef, MemorySize, RrInterval, StarvationBound, TapName,
    VmName,
};
use stile_host::CpuList;

/// One configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The host CPUs that the scheduler owns.
    #[serde(default)]
    pub host: HostConfig,
    /// How the vCPUs share them.
    #[serde(default)]
    pub policy: PolicyConfig,
    /// The virtual machines; at least one.
    #[serde(rename = "vm")]
    #[schemars(length(min = 1))]
    pub vms: Vec<VmConfig>,
}

/// The host CPUs that the scheduler owns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    // Never empty once a configuration is loaded.
    /// Host CPUs to run vCPUs on, by their number in `/proc/cpuinfo`.
    #[serde(skip_serializing_if = "CpuList::is_empty")]
    #[schemars(extend("x-default" = "all that the process may use", "x-range" = "CPUs that the process may use"))]
    pub pcpus: CpuList,
    /// How long KVM spins for a vCPU of a Linux guest that has halted, before its thread sleeps. `auto`: not at all where the
    /// VMs have more vCPUs than there are pCPUs, else as the host's KVM is set. What it spins counts as run.
    pub halt_poll: HaltPoll,
}

// The descriptions below get a sentence each about the policies that take the key.
/// How vCPUs share the pCPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(transform = policy_keys::describe_policy)]
pub struct PolicyConfig {
    /// Who decides which vCPU runs next.
    pub algorithm: Algorithm,
    /// Which threads run the vCPUs.
    pub mechanism: Mechanism,
    /// A vCPU whose deadline comes asks for its pCPU in the host's real-time class (`SCHED_FIFO`), for microseconds and at
    /// most a twentieth of the time, if the host permits it; no guest runs there. Under `leases`.
    pub rt_boost: bool,
    /// A vCPU that becomes runnable on a pCPU handed to another, whose thread does not run yet, takes it if the policy finds
    /// them equal. Under `leases`.
    pub steal: bool,
    /// A vCPU that waits in a loop of PAUSE without saying so is taken to yield, and looked at earlier from then on.
    pub spin_detection: bool,
    /// CPU time a vCPU may use in one round before the next one has its turn.
    pub rr_interval: RrInterval,
    /// Which generation of the staircase.
    pub variant: Variant,
    /// What a guest's yield means.
    #[serde(rename = "yield")]
    pub yield_rule: YieldRule,
    /// A vCPU prefers the pCPU it last ran on.
    pub affinity: bool,
    /// A vCPU runs for 250 us before one that was woken takes its pCPU: more is handed over at a time between vCPUs that wake
    /// each other, and who is woken may wait that much longer.
    pub grain: bool,
    /// How long a vCPU may wait where the policy promises nothing; class `idle` may wait for ever all the same.
    pub starvation_bound: StarvationBound,
    /// What happens when a vCPU waits longer than the policy promises, or than `starvation_bound`.
    pub on_starvation: OnStarvation,
    /// The parts of `yield = "polite"`.
    pub polite: PoliteSwitches,
    /// The old bugs of `goodness`.
    pub goodness: YieldBugs,
    /// The lock of the run queue.
    pub lock: LockRules,
}

/// The generations of the staircase, which differ in the levels that a nice value may run at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Staircase Deadline (May 2007): levels spread evenly.
    Dithered,
    /// The first RSDL (March 2007): the own level and all below, each with a budget that ends it for everybody.
    LevelQuota,
}

/// Which threads run the vCPUs of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// `executors` from Linux 6.13 on, `leases` before it.
    Auto,
    /// A thread per pCPU runs whichever vCPU is to run: a switch wakes no thread. Needs Linux 6.13 or later to run well.
    Executors,
    /// A thread per vCPU runs while it holds a pCPU: a switch wakes a thread, a vCPU stays on its own.
    Leases,
}

/// What happens when a vCPU waits too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnStarvation {
    /// It is told on stderr with the events that led there, once a minute for each vCPU.
    Report,
    /// It is told, and all vCPUs go over to the host's scheduler, as they are and for good.
    Fallback,
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Rsdl,
            mechanism: Mechanism::Auto,
            rt_boost: true,
            steal: false,
            spin_detection: true,
            rr_interval: defaults::RR_INTERVAL,
            variant: Variant::Dithered,
            yield_rule: YieldRule::Polite,
            affinity: true,
            grain: false,
            starvation_bound: defaults::STARVATION_BOUND,
            on_starvation: OnStarvation::Report,
            polite: PoliteSwitches::default(),
            goodness: YieldBugs::default(),
            lock: LockRules::default(),
        }
    }
}

/// What a yield does under `rsdl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum YieldRule {
    /// The next waiter runs; the yielder keeps what it has not used and what it waits for is taken into account.
    Polite,
    /// The yielder goes to the back of the queue and loses what is left of its quota.
    Expire,
    /// A yield returns at once.
    None,
}

/// One virtual machine, or `count` equal ones. It has an `image`, which is a unikernel, or a `kernel`, which is Linux.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VmConfig {
    /// Name in reports and messages; no two VMs share one.
    pub name: VmName,
    /// The unikernel to boot: `builtin:NAME`, or the path of an image. A relative path starts at the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ImageRef", extend("x-default" = "none"))]
    pub image: Option<ImageRef>,
    /// The Linux kernel to boot in place of an image: a bzImage as distributions ship it, or an ELF vmlinux. A relative path
    /// starts at the configuration file. Its vCPUs wait inside the kernel of the host, which `mechanism = "executors"` cannot
    /// carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FilePath", extend("x-default" = "none"))]
    pub kernel: Option<FilePath>,
    /// The initramfs that the kernel finds, compressed or not; as `kernel`. For VMs with a `kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FilePath", extend("x-default" = "none"))]
    pub initrd: Option<FilePath>,
    /// Virtual CPUs; of a Linux guest at most 64.
    #[serde(default = "defaults::vcpus")]
    #[schemars(range(min = 1, max = defaults::VCPUS_MAX))]
    pub vcpus: u32,
    /// Guest memory; a multiple of 4K, and of a unikernel at most 3328M.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MemorySize", extend("x-default" = "`16M`, with a `kernel` `256M`"))]
    pub memory: Option<MemorySize>,
    /// Weight of each vCPU against those of other VMs, as in `nice(1)`: the lower, the more CPU time.
    #[serde(default)]
    #[schemars(range(min = defaults::NICE_MIN, max = defaults::NICE_MAX), transform = policy_keys::describe_nice)]
    pub nice: i8,
    /// CPUs that its vCPUs may use together on average, a fraction or several; at most one for each. Its vCPUs take turns, so
    /// that they are not all held back at once. For all but `host` and `host-noyield`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CpuCap", extend("x-default" = "none"))]
    pub cap: Option<CpuCap>,
    /// Time over which `cap` is counted. Each vCPU has two turns in it, of 100us at least. For VMs with a `cap`.
    #[serde(default)]
    pub cap_period: CapPeriod,
    /// What kind of work its vCPUs do, whatever their number and nice value.
    #[serde(default)]
    pub class: VmClass,
    /// Command line handed to the guest; to a unikernel at most 1024 bytes, to Linux as much as it reads. Before that of a
    /// Linux guest stands `console=ttyS0`, unless it names a console, `panic=-1`, unless it says what to do, and
    /// `reboot=panic_warm`, by which a panic is told from a reboot.
    #[serde(default)]
    #[schemars(length(max = defaults::CMDLINE_MAX))]
    pub cmdline: String,
    /// Attach a network device to the switch inside the process.
    #[serde(default)]
    pub net: bool,
    /// A disk for the guest, `vda` of Linux: a raw image or a block device, of whole 512-byte sectors. A relative path starts
    /// at the configuration file. No other VM may have it unless all only read it. For VMs with a `kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DiskConfig", extend("x-default" = "none"))]
    pub disk: Option<DiskConfig>,
    /// A network device on this tap interface, which has to exist: `ip tuntap add dev NAME mode tap user $USER`. For VMs with
    /// a `kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TapName", extend("x-default" = "none"))]
    pub tap: Option<TapName>,
    /// Sockets between guest and host: the host listens on this unix socket, where programs say `CONNECT PORT` to reach a port
    /// of the guest; the guest's connections to port P of the host go to the unix socket of this name and `_P`. A relative
    /// path starts at the configuration file. For VMs with a `kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FilePath", extend("x-default" = "none"))]
    pub vsock: Option<FilePath>,
    /// Number of equal VMs to start. More than one are called `NAME-0`, `NAME-1` and so on.
    #[serde(default = "defaults::count")]
    #[schemars(range(min = 1, max = defaults::COUNT_MAX))]
    pub count: u32,
}

/// What kind of work the vCPUs of a VM do. Under `host` each is the host's class of that name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VmClass {
    /// Shares CPU time by `nice`. Under `host`: SCHED_OTHER.
    #[default]
    Normal,
    /// Shares CPU time by `nice`; by waking it takes a pCPU from idle vCPUs at most. Under `host`: SCHED_BATCH.
    Batch,
    /// Runs while no other class can. Under `host`: SCHED_IDLE.
    Idle,
    /// Runs before all other classes, in turn with its own. Under `host`: SCHED_RR, where the host permits it.
    Rt,
}

/// What runs in a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuestConfig<'a> {
    /// A unikernel.
    Unikernel(&'a ImageRef),
    /// Linux.
    Linux {
        /// The kernel.
        kernel: &'a FilePath,
        /// The initramfs.
        initrd: Option<&'a FilePath>,
    },
}

impl VmConfig {
    /// What runs in it.
    pub fn guest(&self) -> GuestConfig<'_> {
        match (&self.image, &self.kernel) {
            (_, Some(kernel)) => GuestConfig::Linux { kernel, initrd: self.initrd.as_ref() },
            (Some(image), None) => GuestConfig::Unikernel(image),
            (None, None) => unreachable!("the configuration was checked for one of both"),
        }
    }

    /// Its memory.
    pub fn memory(&self) -> MemorySize {
        self.memory.unwrap_or(match self.guest() {
            GuestConfig::Unikernel(_) => defaults::UNIKERNEL_MEMORY,
            GuestConfig::Linux { .. } => defaults::LINUX_MEMORY,
        })
    }

    /// The names of the VMs that this entry starts, in order.
    pub fn instance_names(&self) -> impl Iterator<Item = String> + use<'_> {
        instance_names(self.name.as_str(), self.count)
    }
}

/// Names of `count` copies of the VM `name`. A single VM keeps its name.
pub(super) fn instance_names(name: &str, count: u32) -> impl Iterator<Item = String> + use<'_> {
    (0..count).map(move |index| if count == 1 { name.to_owned() } else { format!("{name}-{index}") })
}
