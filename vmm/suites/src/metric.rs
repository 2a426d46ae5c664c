//! The metrics: one table with a row for each. Nothing here measures or computes.
//!
//! Names are part of the report format: to rename one is to change the schema. A new metric is a row of the table and a
//! line where `compare` computes it.

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

/// The kind of quantity, which decides how it is compared and shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A result that a ratio to the baseline compares.
    Result,
    /// Work done: a result that narrow tables show with its ratio.
    Work,
    /// A fairness index from 0 to 1.
    Index,
    /// A share of which 1.0 is fair. Twice an unfair share is good and twice a fair one is bad, so it has no verdict.
    Share,
    /// Activity of the scheduler. Twice the work makes twice the exits, so it has no verdict.
    Activity,
    /// A distance from a perfect 0. Its ratio means nothing, so it has no verdict.
    Distance,
}

/// A start is given up after this time and counts as that long (unit: us). The source of netbench reports two minutes.
pub const START_GIVEN_UP: f64 = 10e6;

/// The names of a metric and how to read it.
struct Row {
    name: &'static str,
    label: &'static str,
    short: &'static str,
    unit: &'static str,
    better: Better,
    kind: Kind,
}

/// Makes [`Metric`] and its rows from one table.
macro_rules! metrics {
    ($($(#[$doc:meta])* $metric:ident: $name:literal, $label:literal, $short:literal, $unit:literal, $better:ident, $kind:ident;)*) => {
        /// One measured quantity.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Metric {
            $($(#[$doc])* #[serde(rename = $name)] $metric,)*
        }

        impl Metric {
            /// Every metric, in the order of a report.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$metric),*];

            fn row(self) -> Row {
                match self {
                    $(Self::$metric => Row {
                        name: $name,
                        label: $label,
                        short: $short,
                        unit: $unit,
                        better: Better::$better,
                        kind: Kind::$kind,
                    },)*
                }
            }
        }
    };
}

// The columns: name in files; name in prose and wide tables; name in narrow tables; unit, empty if the suite has its
// own; which direction is better; kind.
metrics! {
    /// Work done per second, in the suite's own unit.
    Throughput: "throughput", "throughput", "work", "", Higher, Work;
    /// Operations per second, whatever their size.
    OpsPerS: "ops_per_s", "operations", "ops", "ops/s", Higher, Result;
    /// Median wait or response time.
    LatencyP50: "latency_p50", "median latency", "p50", "us", Lower, Result;
    /// 99th percentile of the wait or response time.
    LatencyP99: "latency_p99", "p99 latency", "p99", "us", Lower, Result;
    /// 99.9th percentile of the wait or response time.
    LatencyP999: "latency_p999", "p99.9 latency", "p99.9", "us", Lower, Result;
    /// Longest wait or response time, including those that had not ended when the window did.
    LatencyMax: "latency_max", "longest wait", "longest wait", "us", Lower, Result;
    /// 99th percentile of the times of 0.1 ms or more for which a vCPU did not run although it computed, or its
    /// deadline had passed.
    GapP99: "gap_p99", "p99 gap", "p99 gap", "us", Lower, Result;
    /// The longest such time, including those that had not ended when the window did.
    GapMax: "gap_max", "longest gap", "longest gap", "us", Lower, Result;
    /// Jain's fairness index over the vCPUs' operations.
    Jain: "jain", "Jain index", "Jain", "index", Higher, Index;
    /// The least served vCPU's operations relative to an equal share.
    MinShare: "min_share", "smallest share", "smallest share", "of fair share", Higher, Share;
    /// The most served vCPU's operations relative to an equal share.
    MaxShare: "max_share", "largest share", "largest share", "of fair share", Lower, Share;
    /// Requests that a client gave up on.
    ClientErrors: "client_errors", "client errors", "errors", "errors", Lower, Result;
    /// Frames that the virtual switch dropped.
    DroppedFrames: "dropped_frames", "dropped frames", "drops", "frames", Lower, Result;
    /// Longest time from starting a new VM under load until it first ran.
    StartLatencyMax: "start_latency_max", "longest start", "longest start", "us", Lower, Result;
    /// Exits from the guests.
    ExitsPerS: "exits_per_s", "exits", "exits", "exits/s", Lower, Activity;
    /// Exits from the guests for each operation.
    ExitsPerOp: "exits_per_op", "exits per operation", "exits/op", "exits/op", Lower, Result;
    /// Switches of a pCPU from one vCPU to another.
    SwitchesPerS: "switches_per_s", "switches", "switches", "switches/s", Lower, Activity;
    /// Turns of vCPUs on another pCPU than the one before.
    MigrationsPerS: "migrations_per_s", "migrations", "migrations", "migrations/s", Lower, Activity;
    /// Yields of the guests.
    YieldsPerS: "yields_per_s", "yields", "yields", "yields/s", Lower, Activity;
    /// The part of the vCPUs' time for which they waited: they could run and had no pCPU.
    CpuReady: "cpu_ready", "CPU ready", "ready", "%", Lower, Activity;
    /// Work done by the computing vCPUs.
    HogThroughput: "hog_throughput", "work of the hogs", "hogs work", "iterations/s", Higher, Work;
    /// CPU time of the vCPUs that share a lock, relative to an equal share.
    LockersCpuShare: "lockers_cpu_share", "CPU of lockers", "lock CPU", "of fair share", Higher, Share;
    /// CPU time of the thieves, relative to an equal share.
    ThievesCpuShare: "thieves_cpu_share", "CPU of thieves", "thieves CPU", "of fair share", Lower, Share;
    /// CPU time of the computing vCPUs, relative to an equal share.
    HogsCpuShare: "hogs_cpu_share", "CPU of hogs", "hogs CPU", "of fair share", Lower, Share;
    /// Messages between the pairs.
    PairThroughput: "pair_throughput", "work of the pairs", "pairs work", "messages/s", Higher, Work;
    /// CPU time of the pairs, relative to an equal share.
    PairsCpuShare: "pairs_cpu_share", "CPU of pairs", "pairs CPU", "of fair share", Higher, Share;
    /// Jain's fairness index over the vCPUs' CPU time.
    JainCpu: "jain_cpu", "Jain index of CPU", "CPU Jain", "index", Higher, Index;
    /// The largest difference between a vCPU's CPU time and what its weight gives it.
    WeightError: "weight_error", "furthest from its weight", "off weight", "%", Lower, Distance;
    /// CPU time of the vCPUs of nice 0, relative to what their weight gives them.
    Nice0Share: "nice0_share", "CPU of nice 0", "nice 0", "of its weight", Higher, Share;
    /// As for nice 0, for nice 5.
    Nice5Share: "nice5_share", "CPU of nice 5", "nice 5", "of its weight", Higher, Share;
    /// As for nice 0, for nice 10.
    Nice10Share: "nice10_share", "CPU of nice 10", "nice 10", "of its weight", Higher, Share;
    /// Missed deadlines, as a part of all deadlines that passed.
    MissedShare: "missed_share", "missed deadlines", "missed", "%", Lower, Result;
    /// From the start of a build until its last job was done.
    BuildReal: "build_real", "real time of a build", "real", "us", Lower, Result;
    /// Time that a build's vCPUs ran.
    BuildUser: "build_user", "user time of a build", "user", "us", Lower, Result;
    /// Time that the monitor spent in the host's kernel during a build.
    BuildSys: "build_sys", "system time of a build", "sys", "us", Lower, Result;
    /// How unevenly the work is spread over the window.
    Jitter: "jitter", "jitter of work", "jitter", "%", Lower, Result;
    /// Work of one-vCPU VMs relative to that of one VM with as many vCPUs.
    SplitGain: "split_gain", "gain of many VMs", "gain", "times one VM", Higher, Result;
    /// Median time from asking for a VM until its code runs.
    StartP50: "start_p50", "median VM start", "start p50", "us", Lower, Result;
    /// 99th percentile of the time from asking for a VM until its code runs.
    StartP99: "start_p99", "p99 VM start", "start p99", "us", Lower, Result;
    /// Resident memory of the process for each VM.
    MemoryPerVm: "memory_per_vm", "memory of a VM", "memory", "KiB", Lower, Result;
    /// Resident memory of the monitor's processes for each VM, without the guests' memory.
    MonitorPerVm: "monitor_per_vm", "memory of the monitor", "monitor", "KiB", Lower, Result;
    /// From the release of all guests until the last one has done its work.
    RunTime: "run_time", "time to the end", "time", "us", Lower, Result;
    /// The largest resident memory of the process during the run.
    PeakMemory: "peak_memory", "peak memory", "memory", "MiB", Lower, Result;
    /// Yields while no vCPU waited.
    LoneYieldsPerS: "lone_yields_per_s", "yields alone", "alone", "yields/s", Lower, Activity;
    /// Times that `goodness` refilled all counters.
    RecalculationsPerS: "recalculations_per_s", "recalculations", "recalculations", "recalculations/s", Lower, Activity;
    /// Times that `goodness` scheduled again at once because the yielding vCPU was better than the one that replaced
    /// it.
    ExtraPassesPerS: "extra_passes_per_s", "extra passes", "passes", "passes/s", Lower, Activity;
}

impl Metric {
    /// The name in files.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The name in prose and wide tables.
    pub fn label(self) -> &'static str {
        self.row().label
    }

    /// The name in narrow tables.
    pub fn short(self) -> &'static str {
        self.row().short
    }

    /// The unit; `None` for [`Metric::Throughput`], whose unit is the suite's.
    pub fn unit(self) -> Option<&'static str> {
        Some(self.row().unit).filter(|unit| !unit.is_empty())
    }

    /// Which direction is an improvement.
    pub fn better(self) -> Better {
        self.row().better
    }

    /// The kind of quantity.
    pub fn kind(self) -> Kind {
        self.row().kind
    }

    /// Whether the metric is a share of which 1.0 is fair.
    pub fn is_share(self) -> bool {
        self.kind() == Kind::Share
    }

    /// Whether the metric is work done.
    pub fn is_work(self) -> bool {
        self.kind() == Kind::Work
    }

    /// Whether the metric is a time.
    pub fn is_time(self) -> bool {
        self.row().unit == "us"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_throughput_has_the_unit_of_its_suite() {
        for metric in Metric::ALL {
            assert_eq!(metric.unit().is_none(), metric == Metric::Throughput);
        }
    }

    #[test]
    fn names_are_those_of_the_variants_and_differ() {
        let names: std::collections::BTreeSet<&str> = Metric::ALL.iter().map(|metric| metric.name()).collect();
        assert_eq!(names.len(), Metric::ALL.len());
        for metric in Metric::ALL {
            assert_eq!(serde_json::to_value(metric).unwrap(), metric.name());
            assert_eq!(metric.name().replace('_', ""), format!("{metric:?}").to_lowercase());
        }
    }
}
