//! The host's CPUs: their model and flags, those that this process may use, those that share a core or a cache.

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};
use stile_sched::Topology;

use super::CpuList;
use super::root::HostRoot;

/// CPU flags that decide what guests can do or what a measurement is worth.
const FLAGS: [&str; 8] = ["vmx", "svm", "ept", "npt", "hypervisor", "constant_tsc", "nonstop_tsc", "rdtscp"];

/// The host's CPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CpuFacts {
    /// Model name; "unknown" if the kernel does not tell.
    pub model: String,
    /// Those of the flags above that the CPUs have.
    pub flags: Vec<String>,
    /// CPUs that are online.
    pub online: CpuList,
    /// CPUs that this process may use.
    pub allowed: CpuList,
    /// Online CPUs that share a core, core by core.
    pub cores: Vec<CpuList>,
    /// Online CPUs that share a last-level cache, cache by cache.
    pub last_level_caches: Vec<CpuList>,
}

impl CpuFacts {
    /// Reads the host at `root`. `allowed` is the result of [`allowed_cpus`].
    pub(super) fn read(root: &HostRoot, allowed: CpuList) -> Self {
        let cpuinfo = root.text("/proc/cpuinfo").unwrap_or_default();
        let flags = field(&cpuinfo, "flags").unwrap_or_default();
        let online = root.value("/sys/devices/system/cpu/online").unwrap_or_else(|| allowed.clone());
        Self {
            model: field(&cpuinfo, "model name").unwrap_or("unknown").to_owned(),
            flags: flags.split_whitespace().filter(|flag| FLAGS.contains(flag)).map(str::to_owned).collect(),
            cores: groups(&online, |cpu| core(root, cpu)),
            last_level_caches: groups(&online, |cpu| last_level_cache(root, cpu)),
            online,
            allowed,
        }
    }

    /// Whether the CPUs have `flag`.
    pub fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|other| other == flag)
    }

    /// The allowed CPUs that are the first of their core: pCPUs that share no core.
    pub fn one_per_core(&self) -> CpuList {
        let first = |core: &CpuList| core.iter().find(|cpu| self.allowed.contains(*cpu));
        self.cores.iter().filter_map(first).collect()
    }
}

/// Which of a set of CPUs are near each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbours {
    /// Groups of CPUs that share a core, core by core.
    pub cores: Vec<CpuList>,
    /// Groups of CPUs that share a last-level cache, cache by cache.
    pub caches: Vec<CpuList>,
}

impl Neighbours {
    /// The nearness of these CPUs of the running host.
    pub fn of(cpus: &CpuList) -> Self {
        Self::read(&HostRoot::default(), cpus)
    }

    fn read(root: &HostRoot, cpus: &CpuList) -> Self {
        Self { cores: groups(cpus, |cpu| core(root, cpu)), caches: groups(cpus, |cpu| last_level_cache(root, cpu)) }
    }

    /// The nearness of CPUs of a made-up machine: so many behind each cache, and in each core.
    pub fn regular(cpus: &CpuList, cache: u32, core: u32) -> Self {
        let cpus: Vec<u32> = cpus.iter().collect();
        let groups =
            |size: u32| cpus.chunks(size.max(1) as usize).map(|group| group.iter().copied().collect()).collect();
        Self { cores: groups(core), caches: groups(cache) }
    }

    /// The nearness of slots on these CPUs.
    pub fn topology(&self, cpus: &CpuList) -> Topology {
        let numbers = |list: &CpuList| list.iter().map(|cpu| cpu as usize).collect::<Vec<_>>();
        let [cores, caches] = [&self.cores, &self.caches].map(|lists| lists.iter().map(numbers).collect::<Vec<_>>());
        Topology::new(&numbers(cpus), cores.iter().map(Vec::as_slice), caches.iter().map(Vec::as_slice))
    }
}

/// How near the running host's `cpus` are to each other.
pub fn topology(cpus: &CpuList) -> Topology {
    Neighbours::of(cpus).topology(cpus)
}

/// The CPUs that this process may use.
pub fn allowed_cpus() -> rustix::io::Result<CpuList> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect())
}

fn directory(cpu: u32) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}")
}

/// The CPUs that share the core of `cpu`.
fn core(root: &HostRoot, cpu: u32) -> Option<CpuList> {
    root.value(&format!("{}/topology/thread_siblings_list", directory(cpu)))
}

/// The CPUs that share the last-level cache of `cpu`.
fn last_level_cache(root: &HostRoot, cpu: u32) -> Option<CpuList> {
    let cache = format!("{}/cache", directory(cpu));
    let indices = root.names(&cache).into_iter().filter(|name| name.starts_with("index"));
    let level = |index: &String| root.value::<u32>(&format!("{cache}/{index}/level"));
    let last = indices.max_by_key(level)?;
    root.value(&format!("{cache}/{last}/shared_cpu_list"))
}

/// The distinct groups into which `group` puts the `online` CPUs. A CPU without known neighbours stands alone.
fn groups(online: &CpuList, group: impl Fn(u32) -> Option<CpuList>) -> Vec<CpuList> {
    let mut groups: Vec<CpuList> = Vec::new();
    for cpu in online.iter() {
        if !groups.iter().any(|group| group.contains(cpu)) {
            groups.push(group(cpu).unwrap_or_else(|| [cpu].into_iter().collect()));
        }
    }
    groups
}

/// The value of the first line `name : value`.
fn field<'a>(cpuinfo: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeHost;

    #[test]
    fn siblings_and_last_level_cache_are_read_from_sysfs() {
        let host = FakeHost::vmx();
        let cpus = CpuFacts::read(&host.root(), "0-3".parse().unwrap());
        let shown = |groups: &[CpuList]| groups.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown(&cpus.cores), ["0,2", "1,3"]);
        assert_eq!(shown(&cpus.last_level_caches), ["0-3"]);
        assert_eq!(cpus.one_per_core().to_string(), "0-1");
        assert_eq!(cpus.model, "Made-up Xeon");
        assert!(cpus.has("vmx") && !cpus.has("svm"));
    }

    #[test]
    fn topology_of_some_cpus_is_what_sysfs_says_of_them_and_survives_nonsense() {
        let host = FakeHost::vmx();
        let cpus: CpuList = "1-3".parse().unwrap();
        let near = |root: &HostRoot, cpus: &CpuList| Neighbours::read(root, cpus).topology(cpus);
        let caches = [&[1, 2, 3][..]];
        assert_eq!(near(&host.root(), &cpus), Topology::new(&[1, 2, 3], [&[1, 3][..], &[2]], caches));
        host.file("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "no list\n");
        assert_eq!(near(&host.root(), &cpus), Topology::new(&[1, 2, 3], [&[1][..], &[2], &[3]], caches));
    }

    #[test]
    fn host_that_tells_nothing_leaves_each_allowed_cpu_alone() {
        let host = FakeHost::empty();
        let cpus = CpuFacts::read(&host.root(), "0-1".parse().unwrap());
        assert_eq!(cpus.model, "unknown");
        assert_eq!(cpus.online, cpus.allowed);
        assert_eq!((cpus.cores.len(), cpus.last_level_caches.len()), (2, 2));
    }
}
