//! What is measured: the metrics, their units, and which way is better.
//!
//! Names here are part of the report format; renaming one is a schema change. Nothing here measures or computes.

use super::suite::Suite;
use serde::{Deserialize, Serialize};

/// Which direction of a metric is an improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

/// One measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Work done per second, in the suite's own unit.
    Throughput,
    /// Operations per second, whatever their size.
    OpsPerS,
    /// Median wait or response time.
    LatencyP50,
    /// 99th percentile of the wait or response time.
    LatencyP99,
    /// Longest wait or response time, those that had not ended with the window included.
    LatencyMax,
    /// Jain's fairness index over the vCPUs' operations.
    Jain,
    /// The least served vCPU's operations relative to an equal share.
    MinShare,
    /// The most served vCPU's operations relative to an equal share.
    MaxShare,
    /// Requests that a client gave up on.
    ClientErrors,
    /// Frames that the virtual switch dropped.
    DroppedFrames,
    /// Longest time from starting a new VM under load until it first ran.
    StartLatencyMax,
    /// Exits from the guests.
    ExitsPerS,
    /// Switches of a pCPU from one vCPU to another.
    SwitchesPerS,
    /// vCPUs that went on running on another pCPU.
    MigrationsPerS,
    /// Yields of the guests.
    YieldsPerS,
    /// Part of the vCPUs' time that they could have run and had no pCPU.
    CpuReady,
    /// Work done by the computing vCPUs.
    HogThroughput,
    /// CPU time of the vCPUs that share a lock, relative to an equal share.
    LockersCpuShare,
    /// CPU time of the computing vCPUs, relative to an equal share.
    HogsCpuShare,
    /// Messages between the pairs.
    PairThroughput,
    /// CPU time of the pairs, relative to an equal share.
    PairsCpuShare,
    /// Jain's fairness index over the vCPUs' CPU time.
    JainCpu,
    /// The furthest that a vCPU's CPU time is from what its weight gives it.
    WeightError,
    /// CPU time of the vCPUs of nice 0, relative to what their weight gives them.
    Nice0Share,
    /// As for nice 0, for nice 5.
    Nice5Share,
    /// As for nice 0, for nice 10.
    Nice10Share,
    /// Deadlines missed, of all that went by.
    MissedShare,
    /// From the start of a build until its last job was done.
    BuildReal,
    /// Time that a build's vCPUs ran.
    BuildUser,
    /// Time that the monitor was in the host's kernel during a build.
    BuildSys,
    /// How unevenly the work is spread over the window.
    Jitter,
    /// Work of one-vCPU VMs relative to that of one VM with as many vCPUs.
    SplitGain,
    /// Median time from asking for a VM until its code runs.
    StartP50,
    /// 99th percentile of that time.
    StartP99,
    /// Resident memory of the process for each VM.
    MemoryPerVm,
    /// Resident memory of the monitor's processes for each VM, without the guests' own.
    MonitorPerVm,
    /// From the release of all guests until the last one has done its work.
    RunTime,
    /// The most memory that the process had at a time.
    PeakMemory,
    /// Yields of vCPUs while nobody waited.
    LoneYieldsPerS,
    /// Times that `goodness` refilled everybody's counter.
    RecalculationsPerS,
    /// Times that `goodness` asked again at once because a yielder was better than who replaced it.
    ExtraPassesPerS,
}

/// A start is given up after this time and counts as that long (units: us). The source of netbench saw two minutes.
pub const START_GIVEN_UP: f64 = 10e6;

/// What a metric is called and how it reads; the one place that says so.
struct Facts {
    name: &'static str,
    label: &'static str,
    short: &'static str,
    unit: &'static str,
    better: Better,
}

impl Metric {
    /// Every metric, in the order of a report.
    pub const ALL: [Self; 41] = [
        Self::Throughput,
        Self::OpsPerS,
        Self::LatencyP50,
        Self::LatencyP99,
        Self::LatencyMax,
        Self::Jain,
        Self::MinShare,
        Self::MaxShare,
        Self::ClientErrors,
        Self::DroppedFrames,
        Self::StartLatencyMax,
        Self::ExitsPerS,
        Self::SwitchesPerS,
        Self::MigrationsPerS,
        Self::YieldsPerS,
        Self::CpuReady,
        Self::HogThroughput,
        Self::LockersCpuShare,
        Self::HogsCpuShare,
        Self::PairThroughput,
        Self::PairsCpuShare,
        Self::JainCpu,
        Self::WeightError,
        Self::Nice0Share,
        Self::Nice5Share,
        Self::Nice10Share,
        Self::MissedShare,
        Self::BuildReal,
        Self::BuildUser,
        Self::BuildSys,
        Self::Jitter,
        Self::SplitGain,
        Self::StartP50,
        Self::StartP99,
        Self::MemoryPerVm,
        Self::MonitorPerVm,
        Self::RunTime,
        Self::PeakMemory,
        Self::LoneYieldsPerS,
        Self::RecalculationsPerS,
        Self::ExtraPassesPerS,
    ];

    #[rustfmt::skip] // a table
    fn facts(self) -> Facts {
        use Better::{Higher, Lower};
        let (name, label, short, unit, better) = match self {
            Self::Throughput      => ("throughput",        "throughput",       "work",      "",              Higher),
            Self::OpsPerS         => ("ops_per_s",         "operations",       "ops",       "ops/s",         Higher),
            Self::LatencyP50      => ("latency_p50",       "median latency",   "p50",       "us",            Lower),
            Self::LatencyP99      => ("latency_p99",       "p99 latency",      "p99",       "us",            Lower),
            Self::LatencyMax      => ("latency_max",       "longest wait",     "longest wait",       "us",            Lower),
            Self::Jain            => ("jain",              "Jain index",       "Jain",      "index",         Higher),
            Self::MinShare        => ("min_share",         "smallest share",   "smallest share",  "of fair share", Higher),
            Self::MaxShare        => ("max_share",         "largest share",    "largest share",  "of fair share", Lower),
            Self::ClientErrors    => ("client_errors",     "client errors",    "errors",    "errors",        Lower),
            Self::DroppedFrames   => ("dropped_frames",    "dropped frames",   "drops",     "frames",        Lower),
            Self::StartLatencyMax => ("start_latency_max", "longest start",    "longest start", "us",            Lower),
            Self::ExitsPerS       => ("exits_per_s",       "exits",            "exits",     "exits/s",       Lower),
            Self::SwitchesPerS    => ("switches_per_s",    "switches",         "switches",  "switches/s",    Lower),
            Self::MigrationsPerS  => ("migrations_per_s",  "migrations",       "migrations","migrations/s",  Lower),
            Self::YieldsPerS      => ("yields_per_s",      "yields",           "yields",    "yields/s",      Lower),
            Self::CpuReady        => ("cpu_ready",         "CPU ready",        "ready",     "%",             Lower),
            Self::HogThroughput   => ("hog_throughput",    "work of the hogs", "hogs work", "iterations/s",  Higher),
            Self::LockersCpuShare => ("lockers_cpu_share", "CPU of lockers",   "lock CPU",  "of fair share", Higher),
            Self::HogsCpuShare    => ("hogs_cpu_share",    "CPU of hogs",      "hogs CPU",  "of fair share", Lower),
            Self::PairThroughput  => ("pair_throughput",   "work of the pairs","pairs work","messages/s",    Higher),
            Self::PairsCpuShare   => ("pairs_cpu_share",   "CPU of pairs",     "pairs CPU", "of fair share", Higher),
            Self::JainCpu         => ("jain_cpu",          "Jain index of CPU","CPU Jain",  "index",         Higher),
            Self::WeightError     => ("weight_error",      "furthest from its weight", "off weight", "%",    Lower),
            Self::Nice0Share      => ("nice0_share",       "CPU of nice 0",    "nice 0",    "of its weight", Higher),
            Self::Nice5Share      => ("nice5_share",       "CPU of nice 5",    "nice 5",    "of its weight", Higher),
            Self::Nice10Share     => ("nice10_share",      "CPU of nice 10",   "nice 10",   "of its weight", Higher),
            Self::MissedShare     => ("missed_share",      "missed deadlines", "missed",    "%",             Lower),
            Self::BuildReal       => ("build_real",        "real time of a build", "real",  "us",            Lower),
            Self::BuildUser       => ("build_user",        "user time of a build", "user",  "us",            Lower),
            Self::BuildSys        => ("build_sys",         "system time of a build", "sys", "us",            Lower),
            Self::Jitter          => ("jitter",            "jitter of work",   "jitter",    "%",             Lower),
            Self::SplitGain       => ("split_gain",        "gain of many VMs", "gain",      "times one VM",  Higher),
            Self::StartP50        => ("start_p50",         "median VM start",  "start p50", "us",            Lower),
            Self::StartP99        => ("start_p99",         "p99 VM start",     "start p99", "us",            Lower),
            Self::MemoryPerVm     => ("memory_per_vm",     "memory of a VM",   "memory",    "KiB",           Lower),
            Self::MonitorPerVm    => ("monitor_per_vm",    "memory of the monitor", "monitor", "KiB",        Lower),
            Self::RunTime         => ("run_time",          "time to the end",  "time",      "us",            Lower),
            Self::PeakMemory      => ("peak_memory",       "peak memory",      "memory",    "MiB",           Lower),
            Self::LoneYieldsPerS  => ("lone_yields_per_s", "yields alone",     "alone",     "yields/s",      Lower),
            Self::RecalculationsPerS => ("recalculations_per_s", "recalculations", "recalculations", "recalculations/s", Lower),
            Self::ExtraPassesPerS => ("extra_passes_per_s", "extra passes",    "passes",    "passes/s",      Lower),
        };
        Facts { name, label, short, unit, better }
    }

    /// The name in files.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// The name in prose and wide tables.
    pub fn label(self) -> &'static str {
        self.facts().label
    }

    /// The name in narrow tables.
    pub fn short(self) -> &'static str {
        self.facts().short
    }

    /// The unit; only throughput's depends on the suite.
    pub fn unit(self, suite: Suite) -> &'static str {
        if self == Self::Throughput { suite.throughput_unit() } else { self.facts().unit }
    }

    /// Which direction is an improvement.
    pub fn better(self) -> Better {
        self.facts().better
    }

    /// How to read the metric: "higher is better".
    pub fn direction(self, suite: Suite) -> &'static str {
        match self.better() {
            _ if self.is_share() => "1.0 is fair",
            _ if self == Self::WeightError => "0 is fair",
            _ if !self.is_judged(suite) => "for context",
            Better::Higher => "higher is better",
            Better::Lower => "lower is better",
        }
    }

    /// Whether a ratio to the baseline says that a policy did better or worse.
    ///
    /// Not so for a share: twice an unfairly small one is good, twice a fair one is not. Not for what the machinery
    /// did meanwhile: twice the work makes twice the exits. Nor for the hogs' work beside lockers: what they lose there
    /// is what the lockers had been starved of, which the shares show. Nor for the distance from the weights, which is
    /// one of a perfect 0 and has no ratio to speak of.
    pub fn is_judged(self, suite: Suite) -> bool {
        let beside_lockers = matches!(suite, Suite::Mixed | Suite::Threeway);
        let hogs_work = self == Self::HogThroughput && beside_lockers;
        !(self.is_share() || self.is_activity() || self == Self::WeightError || hogs_work)
    }

    /// Whether the metric is a share of which 1.0 is the fair one.
    pub fn is_share(self) -> bool {
        matches!(
            self,
            Self::MinShare
                | Self::MaxShare
                | Self::LockersCpuShare
                | Self::PairsCpuShare
                | Self::HogsCpuShare
                | Self::Nice0Share
                | Self::Nice5Share
                | Self::Nice10Share
        )
    }

    fn is_activity(self) -> bool {
        matches!(
            self,
            Self::ExitsPerS
                | Self::SwitchesPerS
                | Self::MigrationsPerS
                | Self::YieldsPerS
                | Self::CpuReady
                | Self::LoneYieldsPerS
                | Self::RecalculationsPerS
                | Self::ExtraPassesPerS
        )
    }

    /// Whether the metric is work done, which a ratio compares.
    pub fn is_work(self) -> bool {
        matches!(self, Self::Throughput | Self::HogThroughput | Self::PairThroughput)
    }

    /// Whether the metric is a time.
    pub fn is_time(self) -> bool {
        self.facts().unit == "us"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialized_names_equal_the_table() {
        for metric in Metric::ALL {
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
        }
    }

    #[test]
    fn every_metric_has_a_unit_in_every_suite() {
        for suite in Suite::ALL {
            assert!(Metric::ALL.iter().all(|metric| !metric.unit(suite).is_empty()));
        }
    }
}
