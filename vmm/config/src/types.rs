//! The configuration as the rest of stile sees it.
//!
//! These types are the only description of the configuration file: their field comments are the reference, their
//! derived schema is what a file is checked against, and their `Deserialize` is what reads it. The first sentence of
//! a field comment says what the key does. Values were checked when they got here; nothing below parses or complains.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU16;
use stile_sched::lock::LockRules;
use stile_sched::policy::goodness::YieldBugs;
use stile_sched::policy::rsdl::PoliteSwitches;

use super::algorithm::Algorithm;
use super::bounds;
use super::defaults;
use super::values::{
    CapPeriod, CpuCap, DiskConfig, FilePath, HaltPoll, ImageRef, MemorySize, Name, PolicyTime, StarvationBound,
    StationAddress, TapName,
};
use stile_host::CpuList;
use stile_machine::linux::Interrupts;

/// One configuration file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The host CPUs that vCPUs run on.
    #[serde(default)]
    pub host: HostConfig,
    /// How the vCPUs share these CPUs.
    #[serde(default)]
    pub policy: PolicyConfig,
    /// The virtual machines; at least one.
    // None at the start of a node; `schema` asks for one.
    #[serde(rename = "vm", default)]
    #[schemars(length(min = 1))]
    pub vms: Vec<VmConfig>,
}

/// The host CPUs that vCPUs run on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    // Never empty once a configuration is loaded.
    /// Host CPUs that vCPUs run on, by their numbers in `/proc/cpuinfo`: a list such as `[0, 1]` or a text such as
    /// `"0-1,4"`.
    #[serde(skip_serializing_if = "CpuList::is_empty")]
    #[schemars(extend(
        "x-default" = "all that the process may use",
        "x-range" = "CPUs that the process may use",
        "x-also-called" = ["cpus", "cpuset"]
    ))]
    pub pcpus: CpuList,
    /// How long KVM polls for an event after a vCPU of a Linux guest has halted, before the vCPU's thread sleeps.
    /// `auto`: no polling while there are more vCPUs than pCPUs, else the setting of the host's KVM. Polling counts as
    /// run time.
    pub halt_poll: HaltPoll,
}

// In the schema each description gets a sentence about the policies that take the key.
/// How vCPUs share the pCPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PolicyConfig {
    /// The algorithm that decides which vCPU runs next.
    #[schemars(extend("x-also-called" = ["policy", "scheduler"]))]
    pub algorithm: Algorithm,
    /// The threads that run the vCPUs.
    pub mechanism: Mechanism,
    /// Under `leases`: the thread of a vCPU that has to make a decision at a deadline enters the host's real-time class
    /// (`SCHED_FIFO`) for it, if the host permits that. It stays there for microseconds, for a twentieth of the time at
    /// most, and leaves before guest code runs.
    pub rt_boost: bool,
    /// Under `leases`: a vCPU may take a pCPU that was given to another vCPU whose thread has not begun to run, if the
    /// policy ranks both the same.
    pub steal: bool,
    /// A vCPU that spins on PAUSE instructions is detected and treated as if it had yielded. Later spins of it are
    /// detected sooner.
    pub spin_detection: bool,
    /// Quota: CPU time that a vCPU may use before the next one runs.
    #[schemars(extend("x-also-called" = ["quantum", "quota", "slice", "timeslice"]))]
    pub rr_interval: PolicyTime,
    /// How long all runnable vCPUs of nice 0 together may take to use a quota each. With more vCPUs, quotas are shorter
    /// than `rr_interval`.
    #[schemars(extend("x-also-called" = ["latency", "sched_latency"]))]
    pub target_latency: PolicyTime,
    /// A quota of nice 0 is never shorter than this, or than `rr_interval` if that is less.
    #[schemars(extend("x-also-called" = ["min_granularity"]))]
    pub least_quota: PolicyTime,
    /// Generation of the staircase.
    pub variant: Variant,
    /// What a guest's yield does.
    #[serde(rename = "yield")]
    pub yield_rule: YieldRule,
    /// A vCPU prefers the pCPU that it last ran on.
    pub affinity: bool,
    /// A vCPU runs for 250 us before a woken vCPU takes its pCPU. vCPUs that wake each other then pass more work on at
    /// a time, and a woken vCPU may wait 250 us longer.
    pub grain: bool,
    /// Whether pCPUs share a run queue.
    #[schemars(extend("x-also-called" = ["per_cpu_queues", "per_pcpu_queues", "queues", "percpu"]))]
    pub run_queues: RunQueues,
    /// Most pCPUs that ask under one lock. More are divided into shards of neighbours, each with a run queue and a lock
    /// of its own, which take vCPUs from each other.
    #[schemars(range(min = 1, max = 4096), extend("x-also-called" = ["shards", "shard", "cell", "pcpus_per_lock"]))]
    pub shard_pcpus: NonZeroU16,
    /// How long a vCPU may wait if the policy promises no bound. Class `idle` may always wait without end.
    pub starvation_bound: StarvationBound,
    /// What happens when a vCPU waits longer than the policy's bound or than `starvation_bound`.
    pub on_starvation: OnStarvation,
    /// The rules of `yield = "polite"`.
    pub polite: PoliteSwitches,
    /// Bugs of the kernel that `goodness` comes from.
    pub goodness: YieldBugs,
    /// The lock of the run queue.
    pub lock: LockRules,
}

/// The generations of the staircase. They differ in the levels at which a nice value may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// Staircase Deadline (May 2007): the levels of a nice value are spread evenly over the rotation.
    Dithered,
    /// The first RSDL (March 2007): a vCPU runs at the level of its nice value and at all levels below. Each level has
    /// a budget; once that is used up, all vCPUs leave the level.
    LevelQuota,
}

/// The run queues of the pCPUs of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunQueues {
    /// `per-pcpu` where a shard has one or two pCPUs, `shared` where it has more.
    Auto,
    /// All pCPUs share one queue: vCPUs wait in one order for whichever pCPU is free first, and move often.
    Shared,
    /// Each pCPU has its own, in which a vCPU waits that ran there last. pCPUs take vCPUs from each other only where
    /// they must.
    PerPcpu,
}

/// The threads that run the vCPUs of a domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// `executors` from Linux 6.13 on, `leases` before it.
    Auto,
    /// A thread per pCPU, which runs one vCPU after another: a switch wakes no thread. Slow before Linux 6.13.
    Executors,
    /// A thread per vCPU, which runs while its vCPU holds a lease on a pCPU: a switch wakes a thread.
    Leases,
}

/// What happens when a vCPU waits too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnStarvation {
    /// A message on stderr, with the events that led to it, at most once a minute for each vCPU.
    Report,
    /// The message, and the host's scheduler takes over all vCPUs for the rest of the run. Caps hold on.
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
            target_latency: defaults::TARGET_LATENCY,
            least_quota: defaults::LEAST_QUOTA,
            variant: Variant::Dithered,
            yield_rule: YieldRule::Polite,
            affinity: true,
            grain: false,
            run_queues: RunQueues::Auto,
            shard_pcpus: defaults::SHARD_PCPUS,
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
    /// The next waiting vCPU runs. The yielder keeps the rest of its quota, and `[policy.polite]` says how what it
    /// waits for counts.
    Polite,
    /// The yielder goes to the end of the run queue and loses the rest of its quota.
    Expire,
    /// A yield returns at once.
    None,
}

/// One VM, or `count` equal ones. A VM has an `image`, which is a unikernel, or a `kernel`, which is Linux.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VmConfig {
    /// Name in reports and messages. No two VMs have the same.
    pub name: Name,
    /// The unikernel to boot: `builtin:NAME`, or the path of an image. `stile guest list` lists the built-in ones. A
    /// relative path starts at the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ImageRef", extend("x-default" = "none"))]
    pub image: Option<ImageRef>,
    /// The Linux kernel to boot in place of an `image`: a bzImage as distributions ship it, or an ELF vmlinux. A
    /// relative path starts at the configuration file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FilePath", extend("x-default" = "none"))]
    pub kernel: Option<FilePath>,
    /// The initramfs that the kernel gets, compressed or not. A relative path starts at the configuration file. For VMs
    /// with a `kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FilePath", extend("x-default" = "none"))]
    pub initrd: Option<FilePath>,
    /// Where the interrupt controllers of a Linux guest are. It decides what the scheduler sees of a halted vCPU. For
    /// VMs with a `kernel`.
    #[serde(default)]
    #[schemars(extend("x-also-called" = ["irqchip", "kernel_irqchip", "lapic", "apic"]))]
    pub interrupts: VmInterrupts,
    /// The guest has VMX or SVM, as far as the host's KVM offers it, and can run guests of its own. This opens a large
    /// part of KVM to the guest. For VMs with a `kernel`.
    #[serde(default)]
    #[schemars(extend("x-also-called" = ["vmx", "svm", "virtualization", "nested_virtualization"]))]
    pub nested: bool,
    /// The guest has performance counters, as far as the host's KVM offers them. With them it can measure what others
    /// do on its core. For VMs with a `kernel`.
    #[serde(default)]
    #[schemars(extend("x-also-called" = ["pmu", "perf", "performance_counters"]))]
    pub counters: bool,
    /// Number of vCPUs. A Linux guest has at most 64.
    #[serde(default = "defaults::vcpus")]
    #[schemars(range(min = 1, max = bounds::VCPUS_MAX), extend("x-also-called" = ["cpus", "cores", "smp"]))]
    pub vcpus: u32,
    /// Guest memory, a multiple of 4K. A unikernel has at most 3328M.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "MemorySize", extend("x-default" = "`16M`, with a `kernel` `256M`", "x-also-called" = ["mem", "ram"]))]
    pub memory: Option<MemorySize>,
    /// Weight of each vCPU against those of other VMs: the lower, the more CPU time. Mostly a smaller step than
    /// `nice(1)`'s: see docs/weights.md.
    #[serde(default)]
    #[schemars(
        range(min = bounds::NICE_MIN, max = bounds::NICE_MAX),
        extend("x-also-called" = ["weight", "weights", "shares", "priority"])
    )]
    pub nice: i8,
    /// CPUs that all vCPUs of the VM together may use on average over `cap_period` (unit: CPUs), no more than it has
    /// vCPUs. The vCPUs are held back one after another, not all at once. For all policies but `host` and
    /// `host-noyield`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CpuCap", extend("x-default" = "none", "x-also-called" = ["limit", "quota", "cpu_limit"]))]
    pub cap: Option<CpuCap>,
    /// Time over which `cap` is counted. Each vCPU gets two turns in it, each of 100us or more. For VMs with a `cap`.
    #[serde(default)]
    pub cap_period: CapPeriod,
    /// The scheduling class of its vCPUs.
    #[serde(default)]
    pub class: VmClass,
    /// Command line of the guest. A unikernel takes 1024 bytes, a Linux kernel as many as it reads. For Linux, stile
    /// puts `console=ttyS0` before it unless the text names a console, `panic=-1` unless the text sets `panic`, and
    /// `reboot=panic_warm`, which tells a panic from a reboot.
    #[serde(default)]
    #[schemars(length(max = bounds::CMDLINE_MAX), extend("x-also-called" = ["append", "args", "arguments"]))]
    pub cmdline: String,
    /// A network device on the network of this name. VMs that name the same network reach each other; no frame passes
    /// from one network to another. Ports of a network are numbered from 1 in the order of its VMs: port N has the
    /// address 10.0.0.N in built-in guests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Name", extend("x-default" = "none", "x-also-called" = ["net", "switch", "bridge"]))]
    pub network: Option<Name>,
    /// The IPv4 address that the guest gives its device on the `network`, to which it is then pinned: frames that claim
    /// another one are dropped, and so is all that is neither IPv4 nor ARP. The guest cannot ask for an address by
    /// DHCP. For VMs with a `kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "StationAddress", extend("x-default" = "none", "x-also-called" = ["ip", "address"]))]
    pub ipv4: Option<StationAddress>,
    /// A disk, `vda` in the guest: a raw image or a block device whose size is a multiple of 512 bytes. A relative path
    /// starts at the configuration file. Several VMs may share a disk only if all have `read_only = true`. For VMs with
    /// a `kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "DiskConfig", extend("x-default" = "none"))]
    pub disk: Option<DiskConfig>,
    /// A network device on the tap interface of this name. `ip tuntap add dev NAME mode tap user $USER` makes one. For
    /// VMs with a `kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "TapName", extend("x-default" = "none"))]
    pub tap: Option<TapName>,
    /// Sockets between guest and host. stile listens on the unix socket at this path; a program on the host connects to
    /// it and sends `CONNECT PORT` to reach that port of the guest. When the guest connects to port P of the host,
    /// stile connects to the unix socket at this path with `_P` behind it. A relative path starts at the configuration
    /// file. For VMs with a `kernel`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "FilePath", extend("x-default" = "none"))]
    pub vsock: Option<FilePath>,
    /// Number of equal VMs to start. If it is more than one, their names are `NAME-0`, `NAME-1` and so on.
    #[serde(default = "defaults::count")]
    #[schemars(range(min = 1, max = bounds::COUNT_MAX))]
    pub count: u32,
}

/// The scheduling class of a VM's vCPUs. Under `host` it is one of the host's classes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VmClass {
    /// Shares CPU time by `nice`. Under `host`: SCHED_OTHER.
    #[default]
    Normal,
    /// Shares CPU time by `nice`. A vCPU that wakes takes a pCPU only from class `idle`. Under `host`: SCHED_BATCH.
    Batch,
    /// Runs only while no vCPU of another class can. Under `host`: SCHED_IDLE.
    Idle,
    /// Runs before all other classes, under `rsdl` for at most 80 % of each pCPU's time while others wait. Under
    /// `host`: SCHED_RR, if the host permits it.
    Rt,
}

/// Where the interrupt controllers of a VM are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VmInterrupts {
    /// `user` where executors carry the vCPUs, else `kernel`.
    #[default]
    Auto,
    /// In the host's KVM. A halted vCPU sleeps inside the host's kernel, so executors cannot carry it.
    Kernel,
    /// In stile. A halt, a timer and an interrupt between vCPUs are events that the scheduler sees. Each interrupt
    /// costs exits. Needs Linux 5.16.
    User,
}

impl VmInterrupts {
    /// Where they are under a policy whose mechanism is known: not `auto`.
    pub fn under(self, policy: &PolicyConfig) -> Interrupts {
        let executors = !policy.algorithm.is_host() && policy.mechanism == Mechanism::Executors;
        match self {
            Self::Kernel => Interrupts::Kernel,
            Self::User => Interrupts::User,
            Self::Auto if executors => Interrupts::User,
            Self::Auto => Interrupts::Kernel,
        }
    }
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
