//! Made-up hosts for tests: the files that the kernel would show, in a temporary folder.

use std::fs;

use stile_jail::Offer;
use tempfile::TempDir;

use super::facts::Live;
use super::kvm::{CAPABILITIES, Capability};
use super::root::HostRoot;

/// Directories that look like `/proc` and `/sys` of a host; gone when dropped.
pub(super) struct FakeHost(TempDir);

impl FakeHost {
    /// A host that tells nothing.
    pub(super) fn empty() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// Four CPUs on two cores with one cache, KVM's core module, Linux 6.18.
    fn machine(model: &str, flags: &str) -> Self {
        let host = Self::empty();
        host.file("proc/cpuinfo", &format!("processor\t: 0\nmodel name\t: {model}\nflags\t\t: fpu {flags}\n"));
        host.file("proc/sys/kernel/osrelease", "6.18.1-generic\n");
        host.file("proc/sys/kernel/sched_rt_runtime_us", "950000\n");
        host.file("proc/sys/kernel/sched_rt_period_us", "1000000\n");
        host.file("proc/loadavg", "0.25 0.50 1.00 1/85 12453\n");
        host.file("proc/stat", "cpu  11992 0 4032 140809 375 0 37 37 0 0\ncpu0 5645 0 1831 71079 40 0 7 3 0 0\n");
        host.file("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\nMemAvailable:    8388608 kB\n");
        host.file("sys/module/kvm/parameters/halt_poll_ns", "200000\n");
        host.file("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
        host.file("sys/devices/system/cpu/online", "0-3\n");
        for cpu in 0..4 {
            let directory = format!("sys/devices/system/cpu/cpu{cpu}");
            let core = if cpu % 2 == 0 { "0,2\n" } else { "1,3\n" };
            host.file(&format!("{directory}/topology/thread_siblings_list"), core);
            for (index, level, shared) in [(0, "1\n", core), (1, "3\n", "0-3\n")] {
                host.file(&format!("{directory}/cache/index{index}/level"), level);
                host.file(&format!("{directory}/cache/index{index}/shared_cpu_list"), shared);
            }
        }
        host
    }

    /// A host with Intel VMX.
    pub(super) fn vmx() -> Self {
        let host = Self::machine("Made-up Xeon", "vmx ept constant_tsc nonstop_tsc");
        host.directory("sys/module/kvm_intel");
        host
    }

    /// A host with AMD SVM.
    pub(super) fn svm() -> Self {
        let host = Self::machine("Made-up EPYC", "svm npt constant_tsc nonstop_tsc");
        host.directory("sys/module/kvm_amd");
        host
    }

    /// A virtual machine with a KVM that runs guests in software.
    pub(super) fn pvm() -> Self {
        let host = Self::machine("Made-up EPYC", "hypervisor constant_tsc nonstop_tsc");
        host.directory("sys/module/kvm_pvm");
        host
    }

    /// Writes a file, relative to the root.
    pub(super) fn file(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes a directory, relative to the root.
    pub(super) fn directory(&self, path: &str) {
        fs::create_dir_all(self.0.path().join(path)).unwrap();
    }

    /// The root to read this host from.
    pub(super) fn root(&self) -> HostRoot {
        HostRoot::at(self.0.path())
    }
}

/// Answers of a host where everything is there and permitted.
pub(super) fn live() -> Live {
    let jail = Offer { filters: true, landlock: Some(7) };
    let capabilities = CAPABILITIES.iter().map(|used| Capability { name: used.name, value: 1 }).collect();
    Live { allowed: (0..4).collect(), kvm: Ok(capabilities), fifo_refused: None, departures_refused: None, jail }
}
