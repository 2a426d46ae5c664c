//! The suites: what they are called, what their sizes count, and which of their metrics matter.
//!
//! Names are part of the report format; renaming one is a schema change. How a suite is run is said in `compare`.

use super::metric::Metric;
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
    /// All vCPUs ring a doorbell that asks for nothing, as fast as they can.
    Entry,
    /// What a user would notice, beside loads.
    Interactive,
    /// One VM of many vCPUs against as many VMs of one.
    Partition,
    /// VMs are made, run until they are ready, and end.
    Boot,
    /// Groups of senders and receivers exchange a fixed number of messages.
    Hackbench,
    /// Chat rooms in which every message goes to all others.
    Volano,
    /// Clients of tbench in one Linux guest, their servers in another.
    Tbench,
    /// Timers of one Linux guest, beside others that compute.
    Cyclictest,
}

/// A suite name that does not exist.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("no suite is called `{0}`; there are {names}", names = names())]
pub struct UnknownSuite(String);

/// "netbench, ticket, ... and weights".
fn names() -> String {
    stile_text::list(&Suite::ALL.map(Suite::name))
}

/// What the sizes of a suite count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Client VMs.
    Clients,
    /// vCPUs of all VMs.
    Vcpus,
    /// VMs at once.
    Vms,
    /// Groups of senders and receivers, a VM each.
    Groups,
    /// Chat rooms, a VM each.
    Rooms,
}

impl Counted {
    /// Everything that can be counted.
    pub const ALL: [Self; 5] = [Self::Clients, Self::Vcpus, Self::Vms, Self::Groups, Self::Rooms];

    /// The parameter in reports, and the option on command lines.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Vcpus => "vcpus",
            Self::Vms => "vms",
            Self::Groups => "groups",
            Self::Rooms => "rooms",
        }
    }

    /// For readers.
    pub fn words(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Vcpus => "vCPUs",
            Self::Vms => "VMs",
            Self::Groups => "groups",
            Self::Rooms => "rooms",
        }
    }
}

/// What a suite is called and how it reads; the one place that says so.
struct Facts {
    name: &'static str,
    about: &'static str,
    unit: &'static str,
    counted: Counted,
    headline: &'static [Metric],
    plotted: &'static [Metric],
}

impl Suite {
    /// Every suite, in the order of a report.
    pub const ALL: [Self; 16] = [
        Self::Netbench,
        Self::Ticket,
        Self::Pingpong,
        Self::Mixed,
        Self::Threeway,
        Self::Probe,
        Self::Hogs,
        Self::Weights,
        Self::Entry,
        Self::Interactive,
        Self::Partition,
        Self::Boot,
        Self::Hackbench,
        Self::Volano,
        Self::Tbench,
        Self::Cyclictest,
    ];

    fn facts(self) -> Facts {
        use Metric::{
            BuildReal, BuildSys, BuildUser, ClientErrors, HogThroughput, HogsCpuShare, Jain, JainCpu, Jitter,
            LatencyMax, LatencyP50, LatencyP99, LockersCpuShare, LoneYieldsPerS, MemoryPerVm, MinShare, MissedShare,
            MonitorPerVm, Nice0Share, Nice5Share, Nice10Share, PairThroughput, PairsCpuShare, PeakMemory, RunTime,
            SplitGain, StartLatencyMax, StartP50, StartP99, SwitchesPerS, Throughput, WeightError, YieldsPerS,
        };
        match self {
            Self::Netbench => Facts {
                name: "netbench",
                about: "Client VMs send file-server requests to servers over TCP; latency is the time to an answer.",
                unit: "Mbit/s",
                counted: Counted::Clients,
                headline: &[Throughput, LatencyP99, Jain, ClientErrors, StartLatencyMax],
                plotted: &[Throughput, LatencyP99, StartLatencyMax],
            },
            Self::Ticket => Facts {
                name: "ticket",
                about: "All vCPUs take one ticket lock in turn; latency is the wait for the lock.",
                unit: "locks/s",
                counted: Counted::Vcpus,
                headline: &[Throughput, LatencyP99, Jain],
                plotted: &[Throughput, LatencyP99],
            },
            Self::Pingpong => Facts {
                name: "pingpong",
                about: "Pairs of vCPUs pass a message to and fro; latency is the wait for the message.",
                unit: "messages/s",
                counted: Counted::Vcpus,
                headline: &[Throughput, LatencyP99, LatencyMax, Jain],
                plotted: &[Throughput, LatencyP99, LatencyMax],
            },
            Self::Mixed => Facts {
                name: "mixed",
                about: "Half of the vCPUs share a ticket lock, half compute; latency is the wait for the lock.",
                unit: "locks/s",
                counted: Counted::Vcpus,
                headline: &[Throughput, LatencyP99, HogThroughput, LockersCpuShare, HogsCpuShare],
                plotted: &[Throughput, LatencyP99, LockersCpuShare, HogsCpuShare],
            },
            Self::Threeway => Facts {
                name: "threeway",
                about: "A third of the vCPUs each play ping-pong, share a ticket lock, and compute; latency is the wait \
                        for the lock.",
                unit: "locks/s",
                counted: Counted::Vcpus,
                headline: &[
                    Throughput,
                    PairThroughput,
                    HogThroughput,
                    LockersCpuShare,
                    PairsCpuShare,
                    HogsCpuShare,
                    JainCpu,
                ],
                plotted: &[Throughput, PairThroughput, LockersCpuShare, PairsCpuShare, HogsCpuShare],
            },
            Self::Probe => Facts {
                name: "probe",
                about: "Half of the vCPUs wake every 5 ms for a short job, half compute; latency is from wake to done.",
                unit: "requests/s",
                counted: Counted::Vcpus,
                headline: &[Throughput, LatencyP99, HogThroughput],
                plotted: &[Throughput, LatencyP99, HogThroughput],
            },
            Self::Hogs => Facts {
                name: "hogs",
                about: "All vCPUs compute and none waits.",
                unit: "iterations/s",
                counted: Counted::Vcpus,
                headline: &[Throughput, Jain, MinShare],
                plotted: &[Throughput, MinShare],
            },
            Self::Weights => Facts {
                name: "weights",
                about: "All vCPUs compute, in VMs of nice 0, 5 and 10; shares are relative to the policy's weights.",
                unit: "iterations/s",
                counted: Counted::Vcpus,
                headline: &[Throughput, WeightError, Nice0Share, Nice5Share, Nice10Share],
                plotted: &[Throughput, Nice0Share, Nice5Share, Nice10Share],
            },
            Self::Entry => Facts {
                name: "entry",
                about: "All vCPUs ring a doorbell that asks for nothing, as fast as they can, on one pCPU (up) and on \
                        all (smp); latency is from ringing to going on. Without a VM, threads do what the scheduler \
                        does meanwhile and nothing else; under host they call the kernel.",
                unit: "entries/s",
                counted: Counted::Vcpus,
                headline: &[Throughput, Jitter, LatencyP50, LatencyP99, LatencyMax, Jain],
                plotted: &[Throughput, Jitter, LatencyP99],
            },
            Self::Partition => Facts {
                name: "partition",
                about: "The same work by one VM of N vCPUs and by N VMs of one; with locks, all vCPUs of a VM share one.",
                unit: "operations/s",
                counted: Counted::Vcpus,
                headline: &[Throughput, SplitGain, LatencyP99, Jain],
                plotted: &[Throughput, SplitGain],
            },
            Self::Boot => Facts {
                name: "boot",
                about: "VMs are asked for at once; start is the time to the first doorbell, latency that until all vCPUs \
                        run and the workload is set up. Of Linux guests latency is the time to the first process's first                         word.",
                unit: "VMs/s",
                counted: Counted::Vms,
                headline: &[
                    Throughput,
                    StartP50,
                    StartP99,
                    StartLatencyMax,
                    LatencyP50,
                    LatencyP99,
                    LatencyMax,
                    MemoryPerVm,
                    MonitorPerVm,
                ],
                plotted: &[Throughput, StartP99, LatencyP99, MemoryPerVm],
            },
            Self::Interactive => Facts {
                name: "interactive",
                about: "Five probes that a user would notice (pictures, scrolling, music, a terminal, a mouse) beside a \
                        load; latency is from due to done, and a deadline is the begin of the next period.",
                unit: "ops/s",
                counted: Counted::Vcpus,
                headline: &[Throughput, LatencyP99, MissedShare, BuildReal, BuildUser, BuildSys],
                plotted: &[Throughput, LatencyP99, MissedShare],
            },
            Self::Hackbench => Facts {
                name: "hackbench",
                about: "Groups of 20 senders and 20 receivers, a VM each; every sender has 100 messages for each receiver; \
                        the time is from the release of all to the last one's end.",
                unit: "messages/s",
                counted: Counted::Groups,
                headline: &[Throughput, RunTime, PeakMemory],
                plotted: &[Throughput, RunTime],
            },
            Self::Volano => Facts {
                name: "volano",
                about: "Chat rooms, a VM each, of users with four vCPUs each, on one pCPU (up) and on all (smp); every message \
                        goes to all others through queues whose locks yield.",
                unit: "messages/s",
                counted: Counted::Rooms,
                headline: &[Throughput, RunTime, YieldsPerS, LoneYieldsPerS, SwitchesPerS],
                plotted: &[Throughput, YieldsPerS],
            },
            Self::Tbench => Facts {
                name: "tbench",
                about: "Clients of tbench in one Linux guest send a file server's traffic to their servers in another; latency \
                        is the longest time to an answer.",
                unit: "MB/s",
                counted: Counted::Clients,
                headline: &[Throughput, LatencyMax],
                plotted: &[Throughput, LatencyMax],
            },
            Self::Cyclictest => Facts {
                name: "cyclictest",
                about: "Threads of one Linux guest sleep until a time and see how late they wake, while the other guests \
                        compute; latency is how late.",
                unit: "wakes/s",
                counted: Counted::Vms,
                headline: &[Throughput, LatencyP50, LatencyP99, LatencyMax],
                plotted: &[LatencyP50, LatencyP99, LatencyMax],
            },
        }
    }

    /// The name on the command line and in files.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// One line for readers who do not know the suite.
    pub fn about(self) -> &'static str {
        self.facts().about
    }

    /// Unit of [`Metric::Throughput`].
    pub fn throughput_unit(self) -> &'static str {
        self.facts().unit
    }

    /// What its sizes count.
    pub fn counted(self) -> Counted {
        self.facts().counted
    }

    /// Whether its guests wait for each other, and so may say what for.
    pub fn waits(self) -> bool {
        let alone = matches!(self, Self::Probe | Self::Hogs | Self::Weights);
        !alone && !matches!(self, Self::Netbench | Self::Entry | Self::Boot) && !self.is_of_linux()
    }

    /// Whether its guests can be Linux.
    pub fn takes_linux(self) -> bool {
        matches!(self, Self::Boot | Self::Hackbench) || self.is_of_linux()
    }

    /// Whether its guests cannot be anything else.
    pub fn is_of_linux(self) -> bool {
        matches!(self, Self::Tbench | Self::Cyclictest)
    }

    /// Whether the work of its guests has an end, which is waited for; else there is a window.
    pub fn has_end(self) -> bool {
        matches!(self, Self::Hackbench | Self::Volano)
    }

    /// The metrics that decide how this suite went, the most important first. The tables show these.
    pub fn headline(self) -> &'static [Metric] {
        self.facts().headline
    }

    /// The metrics that get a plot.
    pub fn plotted(self) -> &'static [Metric] {
        self.facts().plotted
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serialized_names_equal_the_table() {
        for suite in Suite::ALL {
            assert_eq!(serde_json::to_value(suite).unwrap(), suite.name());
        }
    }

    #[test]
    fn headlines_begin_with_throughput() {
        assert!(Suite::ALL.iter().all(|suite| suite.headline()[0] == Metric::Throughput));
    }

    #[test]
    fn suite_names_parse_back_and_others_are_refused_with_all_names() {
        assert!(Suite::ALL.iter().all(|suite| suite.name().parse() == Ok(*suite)));
        let refused = "tickets".parse::<Suite>().unwrap_err().to_string();
        assert!(refused.contains("`tickets`") && refused.contains("netbench, ticket"), "{refused}");
    }
}
