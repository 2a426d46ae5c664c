//! What is measured: the suites, the metrics, their units, and which way is better.
//!
//! Names here are part of the report format; renaming one is a schema change. Nothing here measures or computes.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A workload family that `compare` can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suite {
    /// Clients and servers that exchange file-server traffic over TCP.
    Netbench,
    /// All vCPUs contend for one ticket lock.
    Ticket,
    /// Pairs of vCPUs pass a message to and fro.
    Pingpong,
    /// Half of the vCPUs contend for a lock, the other half compute.
    Mixed,
    /// A third of the vCPUs each pass messages in pairs, contend for a lock, and compute.
    Threeway,
    /// Half of the vCPUs wake every 5 ms for a short job, the other half compute.
    Probe,
    /// All vCPUs compute.
    Hogs,
    /// All vCPUs compute, in VMs of different nice values.
    Weights,
}

/// A suite name that does not exist.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("no suite is called `{0}`; there are netbench, ticket, pingpong, mixed, threeway, probe, hogs and weights")]
pub struct UnknownSuite(String);

impl Suite {
    /// Every suite, in the order of a report.
    pub const ALL: [Self; 8] = [
        Self::Netbench,
        Self::Ticket,
        Self::Pingpong,
        Self::Mixed,
        Self::Threeway,
        Self::Probe,
        Self::Hogs,
        Self::Weights,
    ];

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Netbench => "netbench",
            Self::Ticket => "ticket",
            Self::Pingpong => "pingpong",
            Self::Mixed => "mixed",
            Self::Threeway => "threeway",
            Self::Probe => "probe",
            Self::Hogs => "hogs",
            Self::Weights => "weights",
        }
    }

    /// One line for readers who do not know the suite.
    pub fn about(self) -> &'static str {
        match self {
            Self::Netbench => {
                "Client VMs send file-server requests to servers over TCP; latency is the time to an answer."
            }
            Self::Ticket => "All vCPUs take one ticket lock in turn; latency is the wait for the lock.",
            Self::Pingpong => "Pairs of vCPUs pass a message to and fro; latency is the wait for the message.",
            Self::Mixed => "Half of the vCPUs share a ticket lock, half compute; latency is the wait for the lock.",
            Self::Threeway => {
                "A third of the vCPUs each play ping-pong, share a ticket lock, and compute; latency is the wait for the lock."
            }
            Self::Probe => {
                "Half of the vCPUs wake every 5 ms for a short job, half compute; latency is from wake to done."
            }
            Self::Hogs => "All vCPUs compute and none waits.",
            Self::Weights => {
                "All vCPUs compute, in VMs of nice 0, 5 and 10; shares are relative to the policy's weights."
            }
        }
    }

    /// Unit of [`Metric::Throughput`].
    pub fn throughput_unit(self) -> &'static str {
        match self {
            Self::Netbench => "Mbit/s",
            Self::Ticket | Self::Mixed | Self::Threeway => "locks/s",
            Self::Pingpong => "messages/s",
            Self::Probe => "requests/s",
            Self::Hogs | Self::Weights => "iterations/s",
        }
    }

    /// The metrics that decide how this suite went, the most important first. The tables show these.
    pub fn headline(self) -> &'static [Metric] {
        match self {
            Self::Netbench => {
                &[Metric::Throughput, Metric::LatencyP99, Metric::Jain, Metric::ClientErrors, Metric::StartLatencyMax]
            }
            Self::Ticket => &[Metric::Throughput, Metric::LatencyP99, Metric::Jain],
            Self::Pingpong => &[Metric::Throughput, Metric::LatencyP99, Metric::LatencyMax, Metric::Jain],
            Self::Mixed => &[
                Metric::Throughput,
                Metric::LatencyP99,
                Metric::HogThroughput,
                Metric::LockersCpuShare,
                Metric::HogsCpuShare,
            ],
            Self::Threeway => &[
                Metric::Throughput,
                Metric::PairThroughput,
                Metric::HogThroughput,
                Metric::LockersCpuShare,
                Metric::PairsCpuShare,
                Metric::HogsCpuShare,
                Metric::JainCpu,
            ],
            Self::Probe => &[Metric::Throughput, Metric::LatencyP99, Metric::HogThroughput],
            Self::Hogs => &[Metric::Throughput, Metric::Jain, Metric::MinShare],
            Self::Weights => {
                &[Metric::Throughput, Metric::WeightError, Metric::Nice0Share, Metric::Nice5Share, Metric::Nice10Share]
            }
        }
    }
}

impl std::fmt::Display for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Suite {
    type Err = UnknownSuite;

    fn from_str(name: &str) -> Result<Self, UnknownSuite> {
        Self::ALL.into_iter().find(|suite| suite.name() == name).ok_or_else(|| UnknownSuite(name.to_owned()))
    }
}

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
}

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
    pub const ALL: [Self; 26] = [
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
    ];

    #[rustfmt::skip] // a table
    fn facts(self) -> Facts {
        use Better::{Higher, Lower};
        let (name, label, short, unit, better) = match self {
            Self::Throughput      => ("throughput",        "throughput",       "work",      "",              Higher),
            Self::OpsPerS         => ("ops_per_s",         "operations",       "ops",       "ops/s",         Higher),
            Self::LatencyP50      => ("latency_p50",       "median latency",   "p50",       "us",            Lower),
            Self::LatencyP99      => ("latency_p99",       "p99 latency",      "p99",       "us",            Lower),
            Self::LatencyMax      => ("latency_max",       "longest wait",     "max",       "us",            Lower),
            Self::Jain            => ("jain",              "Jain index",       "Jain",      "index",         Higher),
            Self::MinShare        => ("min_share",         "smallest share",   "min share", "of fair share", Higher),
            Self::MaxShare        => ("max_share",         "largest share",    "max share", "of fair share", Lower),
            Self::ClientErrors    => ("client_errors",     "client errors",    "errors",    "errors",        Lower),
            Self::DroppedFrames   => ("dropped_frames",    "dropped frames",   "drops",     "frames",        Lower),
            Self::StartLatencyMax => ("start_latency_max", "longest VM start", "start",     "us",            Lower),
            Self::ExitsPerS       => ("exits_per_s",       "exits",            "exits",     "exits/s",       Lower),
            Self::SwitchesPerS    => ("switches_per_s",    "switches",         "switches",  "switches/s",    Lower),
            Self::MigrationsPerS  => ("migrations_per_s",  "migrations",       "moves",     "migrations/s",  Lower),
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
        matches!(self, Self::ExitsPerS | Self::SwitchesPerS | Self::MigrationsPerS | Self::YieldsPerS | Self::CpuReady)
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
        for suite in Suite::ALL {
            assert_eq!(serde_json::to_value(suite).unwrap(), suite.name());
        }
    }

    #[test]
    fn every_metric_has_a_unit_in_every_suite() {
        for suite in Suite::ALL {
            assert!(Metric::ALL.iter().all(|metric| !metric.unit(suite).is_empty()));
        }
    }

    #[test]
    fn headlines_begin_with_throughput() {
        assert!(Suite::ALL.iter().all(|suite| suite.headline()[0] == Metric::Throughput));
    }

    #[test]
    fn suite_names_parse_back_and_others_are_refused() {
        assert!(Suite::ALL.iter().all(|suite| suite.name().parse() == Ok(*suite)));
        let refused = "tickets".parse::<Suite>().unwrap_err();
        assert!(refused.to_string().contains("`tickets`"));
    }
}
