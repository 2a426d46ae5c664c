//! How much of the host other work took between two moments: load of other programs, time stolen by a host above,
//! memory pressure, throttling; and how fast its CPUs were at one moment.
//!
//! It is read from /proc and /sys, where each figure may be missing. The load of others is the time in which the CPUs
//! were busy less the time of this process. Where the kernel counts by ticks, it is exact to one tick for each CPU at
//! best.

use super::CpuList;
use super::root::HostRoot;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Counts since the host started, as far as it tells them.
#[derive(Debug, Clone)]
pub struct DisturbanceMeter {
    at: Instant,
    pcpus: usize,
    busy: Option<Duration>,
    stolen: Option<Duration>,
    own: Duration,
    memory_stall: Option<Duration>,
    throttled: Option<u64>,
}

/// What other work took between two moments. Parts are parts of the time of the CPUs in question.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Disturbance {
    /// Part of the time in which other programs ran.
    pub others: Option<f64>,
    /// Part of the time that a host above took.
    pub stolen: Option<f64>,
    /// Part of the time during which some task waited for memory.
    pub memory_stall: Option<f64>,
    /// How often the CPUs were throttled.
    pub throttled: Option<u64>,
    /// The CPUs' mean frequency (units: MHz).
    pub mhz: Option<f64>,
    /// How long a cache line took from one of the CPUs to another (units: ns).
    pub hop_ns: Option<u64>,
}

impl DisturbanceMeter {
    /// The counts at this moment, of these CPUs.
    pub fn now(pcpus: &CpuList) -> Self {
        let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        let own = Duration::new(own.tv_sec.unsigned_abs(), own.tv_nsec.unsigned_abs() as u32);
        Self::at(&HostRoot::default(), pcpus, own)
    }

    fn at(root: &HostRoot, pcpus: &CpuList, own: Duration) -> Self {
        let stat = root.text("/proc/stat");
        let times: Option<Vec<(Duration, Duration)>> =
            stat.as_deref().and_then(|stat| pcpus.iter().map(|cpu| times(stat, cpu)).collect());
        Self {
            at: Instant::now(),
            pcpus: pcpus.len(),
            busy: times.as_ref().map(|times| times.iter().map(|(busy, _)| busy).sum()),
            stolen: times.as_ref().map(|times| times.iter().map(|(_, stolen)| stolen).sum()),
            own,
            memory_stall: root.text("/proc/pressure/memory").as_deref().and_then(stall),
            throttled: throttled(root, pcpus),
        }
    }

    /// The differences between this reading and `later`.
    pub fn until(&self, later: &Self) -> Disturbance {
        let wall = (later.at - self.at).as_secs_f64();
        let part = |time: Duration, of: f64| if of > 0.0 { time.as_secs_f64() / of } else { 0.0 };
        let cpus = wall * self.pcpus as f64;
        let since = |now: Option<Duration>, then: Option<Duration>| Some(now?.saturating_sub(then?));
        let others = since(later.busy, self.busy).map(|busy| busy.saturating_sub(later.own - self.own));
        Disturbance {
            others: others.map(|time| part(time, cpus)),
            stolen: since(later.stolen, self.stolen).map(|time| part(time, cpus)),
            memory_stall: since(later.memory_stall, self.memory_stall).map(|time| part(time, wall)),
            throttled: later.throttled.zip(self.throttled).map(|(now, then)| now.saturating_sub(then)),
            mhz: None,
            hop_ns: None,
        }
    }
}

/// The mean frequency of these CPUs at this moment (units: MHz); `None` if the host does not tell.
pub fn frequency(pcpus: &CpuList) -> Option<f64> {
    frequency_at(&HostRoot::default(), pcpus)
}

fn frequency_at(root: &HostRoot, pcpus: &CpuList) -> Option<f64> {
    let khz = |cpu| root.value::<f64>(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"));
    let sum: Option<f64> = pcpus.iter().map(khz).sum();
    Some(sum? / pcpus.len() as f64 / 1000.0)
}

/// How long a CPU ran programs, and how long it was stolen. Interrupts are left out: guests cause some of them, and the
/// kernel does not tell which.
fn times(stat: &str, cpu: u32) -> Option<(Duration, Duration)> {
    let name = format!("cpu{cpu}");
    let line = stat.lines().find(|line| line.split_whitespace().next() == Some(&name))?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).map_while(|word| word.parse().ok()).collect();
    let &[user, nice, system, _idle, _iowait, _irq, _softirq, stolen, ..] = &ticks[..] else { return None };
    let time = |ticks: u64| Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32;
    Some((time(user + nice + system), time(stolen)))
}

/// How long some task has waited for memory.
fn stall(pressure: &str) -> Option<Duration> {
    let some = pressure.lines().find(|line| line.starts_with("some"))?;
    let total = some.split_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(Duration::from_micros(total.parse().ok()?))
}

/// How often these CPUs, and the packages to which they belong, have been throttled.
fn throttled(root: &HostRoot, pcpus: &CpuList) -> Option<u64> {
    let count = |cpu: u32, of: &str| {
        root.value::<u64>(&format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{of}_throttle_count"))
    };
    pcpus.iter().map(|cpu| Some(count(cpu, "core")? + count(cpu, "package").unwrap_or(0))).sum()
}

#[cfg(test)]
mod tests {
    use super::super::fake::FakeHost;
    use super::*;

    fn cpus() -> CpuList {
        "0-1".parse().unwrap()
    }

    fn host(busy: [u64; 2], stolen: u64, stalled: u64, throttled: u64) -> FakeHost {
        let host = FakeHost::empty();
        let line = |cpu: usize| format!("cpu{cpu} {} 10 10 5000 0 7 7 {stolen} 0 0\n", busy[cpu]);
        host.file("proc/stat", &format!("cpu  1 1 1 1\n{}{}cpu10 9 9 9 9 9 9 9 9 9 9\n", line(0), line(1)));
        host.file("proc/pressure/memory", &format!("some avg10=0.00 total={stalled}\nfull avg10=0.00 total=0\n"));
        for cpu in 0..2 {
            let directory = format!("sys/devices/system/cpu/cpu{cpu}");
            host.file(&format!("{directory}/thermal_throttle/core_throttle_count"), &format!("{throttled}\n"));
            host.file(&format!("{directory}/cpufreq/scaling_cur_freq"), &format!("{}\n", 2_000_000 + cpu * 1_000_000));
        }
        host
    }

    fn between(before: &FakeHost, after: &FakeHost, own_ms: u64) -> Disturbance {
        let before = DisturbanceMeter::at(&before.root(), &cpus(), Duration::from_secs(5));
        let after =
            DisturbanceMeter::at(&after.root(), &cpus(), Duration::from_secs(5) + Duration::from_millis(own_ms));
        before.until(&DisturbanceMeter { at: before.at + Duration::from_secs(1), ..after })
    }

    #[test]
    fn load_of_others_is_what_this_process_did_not_run() {
        let found = between(&host([100, 100], 0, 0, 0), &host([200, 150], 0, 0, 0), 1000);
        assert_eq!(found.others, Some(0.25), "1.5 s of 2 were busy, 1 s with this process");
        let own_only = between(&host([100, 100], 0, 0, 0), &host([150, 100], 0, 0, 0), 600);
        assert_eq!(own_only.others, Some(0.0), "ticks are coarser than the process's own clock");
    }

    #[test]
    fn stolen_time_stalls_and_throttling_are_differences() {
        let found = between(&host([0, 0], 10, 5_000, 3), &host([0, 0], 20, 105_000, 4), 0);
        assert_eq!((found.stolen, found.memory_stall, found.throttled), (Some(0.1), Some(0.1), Some(2)));
    }

    #[test]
    fn a_host_that_tells_nothing_gives_no_figures() {
        let nothing = FakeHost::empty();
        assert_eq!(between(&nothing, &nothing, 100), Disturbance::default());
        assert_eq!(frequency_at(&nothing.root(), &cpus()), None);
    }

    #[test]
    fn the_frequency_is_the_cpus_mean() {
        assert_eq!(frequency_at(&host([0, 0], 0, 0, 0).root(), &cpus()), Some(2500.0));
    }
}
