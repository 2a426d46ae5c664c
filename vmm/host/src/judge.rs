//! The conclusions from the host's facts: a function for each subject, from facts to a finding.

use super::doctor::{Finding, State};
use super::facts::{FREE_VCPU_FDS, HostFacts};
use super::kvm::{Backend, CAPABILITIES, Need};

/// Load average per CPU above which other work is taken to disturb a measurement.
const QUIET_LOAD: f64 = 0.25;
/// VMs of the largest step of the default comparison: 48 clients and a server for each.
const COMPARED_VMS: u64 = 96;

impl Finding {
    fn new(subject: &'static str, state: State, fact: impl Into<String>, consequence: impl Into<String>) -> Self {
        Self { subject, state, fact: fact.into(), consequence: consequence.into(), remedy: None }
    }

    fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}

pub(super) fn device(facts: &HostFacts) -> Finding {
    let Some(unavailable) = &facts.kvm.unavailable else {
        let version = facts.kvm.api_version.unwrap_or_default();
        let fact = format!("/dev/kvm can be opened; API version {version}");
        return Finding::new("KVM", State::Good, fact, "guests can run");
    };
    let remedy = &unavailable.remedy;
    let remedy = match &facts.kvm.backend {
        Backend::Absent if !facts.cpu.has("vmx") && !facts.cpu.has("svm") => {
            format!(
                "{remedy}. The CPU shows neither VMX nor SVM: it must be switched on in the firmware or by the host"
            )
        }
        _ => remedy.to_owned(),
    };
    let consequence = "no guest can run: `stile run` and `stile compare` end with exit code 3";
    Finding::new("KVM", State::Bad, unavailable.reason.clone(), consequence).remedy(remedy)
}

pub(super) fn backend(facts: &HostFacts) -> Finding {
    let hardware = |name: &str| {
        let consequence = "unikernel guests and Linux guests run at native speed";
        Finding::new("backend", State::Good, format!("{name}, hardware virtualisation"), consequence)
    };
    match &facts.kvm.backend {
        Backend::Vmx => hardware("Intel VMX"),
        Backend::Svm => hardware("AMD SVM"),
        Backend::Pvm => Finding::new(
            "backend",
            State::Warn,
            "PVM, virtualisation in software",
            "unikernel guests run at native speed, because their work is at CPL 3; an exit costs some 25 us; the kernel of a \
             Linux guest is emulated instruction by instruction and its user programs do not start",
        )
        .remedy("for Linux guests use a host whose CPU has VMX or SVM"),
        Backend::Unknown(modules) => {
            let modules = if modules.is_empty() { "no vendor module".to_owned() } else { modules.join(", ") };
            let consequence = "guests may run; stile was never tried on it";
            Finding::new("backend", State::Warn, format!("unknown ({modules})"), consequence)
        }
        Backend::Absent => {
            let consequence = "guests may run; the backend cannot be named in reports";
            Finding::new("backend", State::Warn, "KVM works but /sys/module does not show it", consequence)
                .remedy("mount sysfs at /sys")
        }
    }
}

/// One finding for each capability that is missing, or one for all.
pub(super) fn capabilities(facts: &HostFacts) -> Vec<Finding> {
    let has = |name| facts.kvm.capabilities.iter().any(|found| found.name == name && found.present());
    let missing = CAPABILITIES.iter().filter(|used| !has(used.name)).map(|used| {
        let (state, consequence) = match used.need {
            Need::Required => (State::Bad, "no guest can run"),
            Need::Useful(loss) => (State::Warn, loss),
        };
        Finding::new("capability", state, format!("{} is missing", used.name), consequence)
    });
    let missing: Vec<_> = missing.collect();
    if missing.is_empty() {
        let fact = format!("all {} that stile uses are there", CAPABILITIES.len());
        return vec![Finding::new("capabilities", State::Good, fact, "nothing is switched off")];
    }
    missing
}

pub(super) fn kernel(facts: &HostFacts) -> Finding {
    let release = &facts.kernel.release;
    let (major, minor) = FREE_VCPU_FDS;
    match facts.kernel.version() {
        Some(version) if version >= FREE_VCPU_FDS => Finding::new(
            "kernel",
            State::Good,
            format!("Linux {release}"),
            "a vCPU may move between threads freely: one thread per pCPU can run all vCPUs, a switch being a return and a call",
        ),
        Some(_) => Finding::new(
            "kernel",
            State::Warn,
            format!("Linux {release}, older than {major}.{minor}"),
            "the first run of a vCPU on another thread waits for a grace period in the kernel, up to hundreds of ms: policies run \
             with a thread per vCPU (`mechanism = \"leases\"`), where a switch wakes a thread",
        )
        .remedy(format!("use Linux {major}.{minor} or later")),
        None => Finding::new(
            "kernel",
            State::Warn,
            format!("release `{release}` cannot be read"),
            format!("it is taken to be older than {major}.{minor}: policies run with a thread per vCPU"),
        )
        .remedy("mount procfs at /proc"),
    }
}

pub(super) fn cpus(facts: &HostFacts) -> Finding {
    let cpu = &facts.cpu;
    let fact = format!(
        "{}; may use {} of {} online ({})",
        cpu.model,
        cpu.allowed.len(),
        cpu.online.len(),
        if cpu.allowed.is_empty() { "none".to_owned() } else { cpu.allowed.to_string() }
    );
    let separate = cpu.one_per_core();
    match cpu.allowed.len() {
        0 => {
            Finding::new("CPUs", State::Bad, fact, "no vCPU has a place to run").remedy("check the process's affinity")
        }
        1 => Finding::new(
            "CPUs",
            State::Warn,
            fact,
            "vCPUs share one pCPU; migration and hand-off between pCPUs do not occur",
        )
        .remedy("allow the process more CPUs (taskset, cpuset)"),
        used if !separate.is_empty() && separate.len() < used => {
            let consequence = "some of them are threads of one core and slow each other down, so a pCPU's speed depends on \
                               its neighbour";
            let list: Vec<_> = separate.iter().map(|cpu| cpu.to_string()).collect();
            Finding::new("CPUs", State::Warn, fact, consequence)
                .remedy(format!("for even measurements take one thread per core: pcpus = [{}]", list.join(", ")))
        }
        _ => {
            let caches = cpu.last_level_caches.iter().filter(|cache| cache.iter().any(|c| cpu.allowed.contains(c)));
            let consequence = match caches.count() {
                0 | 1 => "the pCPUs share no core, and one cache: a vCPU that moves keeps what it cached".to_owned(),
                caches => format!(
                    "the pCPUs share no core, and lie on {caches} caches: a vCPU that moves may have to refill one"
                ),
            };
            Finding::new("CPUs", State::Good, fact, consequence)
        }
    }
}

pub(super) fn machine(facts: &HostFacts) -> Finding {
    let steal = facts.steal_ticks.map(|ticks| format!("; {ticks} ticks stolen since boot")).unwrap_or_default();
    if facts.cpu.has("hypervisor") {
        let consequence = "its own host takes CPU time that it does not see, which widens every interval; compare runs of this machine only \
                           with each other";
        Finding::new("machine", State::Warn, format!("a virtual machine{steal}"), consequence)
            .remedy("measure on bare metal, or raise --reps until the intervals are narrow")
    } else {
        Finding::new(
            "machine",
            State::Good,
            format!("bare metal{steal}"),
            "no hypervisor takes CPU time from this kernel",
        )
    }
}

pub(super) fn halt_polling(facts: &HostFacts) -> Option<Finding> {
    let finding = match facts.kvm.halt_poll_ns? {
        0 => Finding::new("halt polling", State::Good, "off", "an idle Linux guest leaves its pCPU at once"),
        ns => {
            let fact = format!("on, up to {} us", ns / 1000);
            let consequence = "each time a vCPU of a Linux guest halts, KVM may poll that long on its pCPU, unless `halt_poll` \
                               says otherwise, as it does by itself where there are more vCPUs than pCPUs; unikernel guests \
                               block outside KVM and are not affected";
            Finding::new("halt polling", State::Warn, fact, consequence)
                .remedy("set `halt_poll` where `auto` does not do")
        }
    };
    Some(finding)
}

pub(super) fn halts(facts: &HostFacts) -> Finding {
    match &facts.departures_refused {
        None => {
            let consequence = "a vCPU of a Linux guest that halts gives its pCPU up at once";
            Finding::new("halts", State::Good, "the kernel tells a thread that it leaves its CPU", consequence)
        }
        Some(reason) => {
            let consequence = "a thread of the class idle on each pCPU finds halted vCPUs: where another program keeps the pCPU \
                               busy, a vCPU of a Linux guest keeps it for up to 8 ms after it halts under a policy; unikernel \
                               guests are not affected";
            let fact = format!("a counter of context switches is refused ({reason})");
            Finding::new("halts", State::Warn, fact, consequence).remedy(
                "allow it for Linux guests: `sudo sysctl kernel.perf_event_paranoid=1`, or CAP_PERFMON where that is 2",
            )
        }
    }
}

pub(super) fn realtime(facts: &HostFacts) -> Finding {
    match &facts.realtime.refused {
        None => {
            let limit = match (facts.realtime.runtime_us, facts.realtime.period_us) {
                (Some(-1), _) => ", without a limit".to_owned(),
                (Some(runtime), Some(period)) => format!(", {} ms in {} ms at most", runtime / 1000, period / 1000),
                _ => String::new(),
            };
            let fact = format!("SCHED_FIFO is permitted{limit}");
            let consequence = "under the mechanism `leases` a vCPU whose deadline comes is boosted: its thread asks for a pCPU at \
                               once; executors do not need it";
            Finding::new("real time", State::Good, fact, consequence)
        }
        Some(reason) => {
            let consequence = "under the mechanism `leases` a vCPU whose deadline comes waits until the host runs its thread; \
                               executors do not need it";
            Finding::new("real time", State::Warn, format!("SCHED_FIFO is refused ({reason})"), consequence)
                .remedy("allow it (CAP_SYS_NICE, or `ulimit -r 1`) if you use `leases`")
        }
    }
}

pub(super) fn jail(facts: &HostFacts) -> Finding {
    let filters = if facts.jail.filters { "filters of system calls" } else { "no filters of system calls" };
    let landlock =
        facts.jail.landlock.map_or("no Landlock".to_owned(), |version| format!("Landlock, version {version}"));
    let fact = format!("{filters}; {landlock}");
    match (facts.jail.filters, facts.jail.landlock) {
        (true, Some(_)) => {
            let consequence = "`stile run` and `stile compare` give up files and system calls that they do not need";
            Finding::new("jail", State::Good, fact, consequence)
        }
        (filters, _) => {
            let (lost, fix) = match filters {
                true => ("keep access to all files of their user", "lsm=landlock,... on the kernel's command line"),
                false => ("can make any system call", "a kernel with CONFIG_SECCOMP_FILTER"),
            };
            let consequence = format!("`stile run` and `stile compare` {lost}; guests run all the same");
            Finding::new("jail", State::Warn, fact, consequence).remedy(fix)
        }
    }
}

pub(super) fn autogroups(facts: &HostFacts) -> Finding {
    if !facts.kernel.autogroups {
        return Finding::new("autogroups", State::Good, "off", "the kernel's own threads get their turn under load");
    }
    let consequence = "under `host` a session whose vCPUs wake each other may keep the kernel's own threads waiting, and with \
                       them every start of a VM, for seconds; `stile compare` switches them off while it runs, if it may";
    Finding::new("autogroups", State::Warn, "on", consequence).remedy("sudo sysctl kernel.sched_autogroup_enabled=0")
}

pub(super) fn clock(facts: &HostFacts) -> Finding {
    let source = facts.kernel.clocksource.as_deref().unwrap_or("unknown");
    if source == "tsc" {
        return Finding::new("clock", State::Good, "tsc", "guests and monitor read one clock, without an exit");
    }
    let consequence =
        "guests read the TSC, which this kernel does not use as its clock: their times may jump between CPUs";
    Finding::new("clock", State::Warn, source, consequence)
        .remedy("see `dmesg | grep -i tsc` for why the kernel left it")
}

pub(super) fn load(facts: &HostFacts) -> Finding {
    let Some([last_minute, ..]) = facts.load else {
        let consequence = "other work may disturb a measurement without a sign of it";
        return Finding::new("load", State::Warn, "unknown", consequence).remedy("mount procfs at /proc");
    };
    let fact = format!("{last_minute:.2} over the last minute");
    if last_minute > QUIET_LOAD * facts.cpu.online.len() as f64 {
        Finding::new("load", State::Warn, fact, "other work competes with the guests and disturbs a measurement")
            .remedy("stop it, or keep it off the pCPUs (taskset, cpuset)")
    } else {
        Finding::new("load", State::Good, fact, "the host is quiet enough to measure on")
    }
}

pub(super) fn memory(facts: &HostFacts, vm_memory: u64) -> Finding {
    let Some(available) = facts.memory.available else {
        return Finding::new("memory", State::Warn, "unknown", "whether all guests fit shows only when they start")
            .remedy("mount procfs at /proc");
    };
    let vms = available / vm_memory;
    let fact = format!("{} MiB available", available >> 20);
    let consequence = format!("room for {vms} VMs of the default size, {}M, if each used all of it", vm_memory >> 20);
    if vms < COMPARED_VMS {
        Finding::new("memory", State::Warn, fact, consequence).remedy(format!(
            "the default comparison starts up to {COMPARED_VMS} VMs: free memory, or give fewer --clients"
        ))
    } else {
        Finding::new("memory", State::Good, fact, consequence)
    }
}
