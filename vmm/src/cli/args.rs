//! The command line.

use crate::compare::{Hint, Setup};
use crate::config::PolicyConfig;
use crate::host::CpuList;
use crate::report::suite::{Suite, UnknownSuite};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::str::FromStr;

/// A virtual machine monitor that schedules its guests' vCPUs itself.
#[derive(Debug, Parser)]
#[command(name = "stile", version, max_term_width = 100)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the virtual machines of a configuration file until they end
    Run(RunArgs),
    /// Say whether a configuration file can be run, and what its policy promises each VM; start nothing
    Check {
        /// The configuration file
        file: PathBuf,
    },
    /// Print the JSON Schema of the configuration file
    Schema {
        /// Print the reference of all keys as Markdown instead
        #[arg(long)]
        markdown: bool,
    },
    /// Run a suite of guest workloads under several policies and report how they compare
    Compare(Box<CompareArgs>),
    /// Run a suite on a machine that is not there: models of guests, the same policies, any number of pCPUs
    Sim(SimArgs),
    /// Say what this host can do and what follows
    Doctor {
        /// As JSON
        #[arg(long, conflicts_with = "costs")]
        json: bool,
        /// Measure what an exit, a switch, a kick and a wake-up cost here, for `stile sim`; as JSON
        #[arg(long)]
        costs: bool,
    },
    /// Print the table of an earlier run's report.json
    Show {
        /// The report
        file: PathBuf,
        /// As Markdown
        #[arg(long)]
        markdown: bool,
    },
    /// Make a trace for chrome://tracing or ui.perfetto.dev of a recording
    Trace {
        /// The recording
        recording: PathBuf,
        /// Where to; by default to standard output
        #[arg(long, value_name = "FILE.json")]
        out: Option<PathBuf>,
    },
    /// Say what a vCPU waited for longest, and who ran meanwhile
    Why {
        /// The vCPU, by name, such as worker-0/1, or by id, such as v5
        vcpu: String,
        /// The recording
        recording: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Ask a recording's policy everything anew, compare its answers, and print the recording's figures
    Replay {
        /// The recording
        recording: PathBuf,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Say whether a report.json is whole and consistent
    CheckReport {
        /// The report
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// The configuration file
    pub(super) file: PathBuf,
    /// End all virtual machines after this many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub(super) limit: Option<f64>,
    /// Record everything that the policy is asked and answers, for trace, why and replay
    #[arg(long, value_name = "PATH")]
    pub(super) record: Option<PathBuf>,
    /// Tell what becomes of the vCPUs' time: every second, or as often as this says, and in all at the end
    #[arg(long, value_name = "SECONDS", value_parser = seconds, num_args = 0..=1, require_equals = true,
          default_missing_value = "1")]
    pub(super) stats: Option<f64>,
    /// Write the same to this file as JSON, a line each time
    #[arg(long, value_name = "FILE")]
    pub(super) stats_json: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct SimArgs {
    /// What to simulate: suite, policies, sizes, pCPUs, costs
    #[arg(required_unless_present = "replay")]
    pub(super) file: Option<PathBuf>,
    /// Replay a recorded run of a suite and simulate the same, and say how far simulated and measured figures differ
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["file", "record"])]
    pub(super) replay: Option<PathBuf>,
    /// Folder of the report
    #[arg(long, value_name = "DIR", default_value = "stile-report")]
    pub(super) out: PathBuf,
    /// Record every run into the folder's raw, for trace, why and replay, but for those under the host's scheduler
    #[arg(long)]
    pub(super) record: bool,
}

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// netbench, ticket, pingpong, mixed, threeway, probe, hogs, weights, interactive, volano, hackbench, entry, partition or
    /// boot; or reports, for those of the reports that this project grew from, one after the other in a quarter of an hour
    #[arg(default_value = "netbench")]
    pub(super) suite: Subject,
    /// Policies: host, host-noyield, freelist, o1, goodness, rsdl (as rsdl+polite), rsdl+expire, rsdl+none;
    /// host twice for an A/A run; by default host and rsdl, for entry freelist as well, for a full netbench o1, for
    /// interactive all of host and rsdl
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) policies: Vec<PolicyConfig>,
    /// Numbers of vCPUs, each a run of its own (suites that count them)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(super) vcpus: Vec<u32>,
    /// Numbers of client VMs, each a run of its own (netbench)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(super) clients: Vec<u32>,
    /// Numbers of VMs asked for at once, each a run of its own (boot)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) vms: Vec<u32>,
    /// How the suite is set up: up, smp, affinity (netbench); up, smp (volano); none, memload, execload, forkload, make, make-ccache
    /// (interactive: what runs beside the probes); up, smp, bare-up, bare-smp (entry); no-locks, locks (partition);
    /// VCPUSxMEMORY such as 4x16M (boot). By default all but netbench's
    #[arg(long = "setup", value_name = "LIST", value_delimiter = ',')]
    pub(super) setups: Vec<Setup>,
    /// Numbers of groups of 40 vCPUs, each a run of its own (hackbench)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(super) groups: Vec<u32>,
    /// Numbers of chat rooms, each a run of its own (volano)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(super) rooms: Vec<u32>,
    /// Rounds; every round runs every policy once with every parameter
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) reps: Option<u32>,
    /// Go on, from five rounds on, until the interval of each headline ratio is at most this part of the ratio wide, such
    /// as 0.05
    #[arg(long, value_name = "WIDTH", value_parser = part, conflicts_with = "reps")]
    pub(super) until: Option<f64>,
    /// Begin no round that would end after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "600", requires = "until")]
    pub(super) limit: f64,
    /// Length of each measured window; by default what fits the time of a run
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) duration: Option<f64>,
    /// Host CPUs to run on, such as 0-1 or 0,2; by default all this process may use
    #[arg(long, value_name = "LIST")]
    pub(super) pcpus: Option<CpuList>,
    /// What the guests tell of their waiting (silent: cannot be simulated)
    #[arg(long, value_enum, default_value = "full")]
    pub(super) hint: Hint,
    /// A parameter of the guests' workload, such as hold_ns=500; may be repeated
    #[arg(long = "set", value_name = "KEY=NUMBER", value_parser = setting)]
    pub(super) settings: Vec<(String, u64)>,
    /// A short run: at most 20 s on 2 CPUs, 30 s for interactive
    #[arg(long)]
    pub(super) quick: bool,
    /// What the report that the suite comes from did, if it comes from one: its sizes, setups and policies, and windows of
    /// 3 s, whatever time that takes
    #[arg(long, conflicts_with = "quick")]
    pub(super) full: bool,
    /// Simulate: run models of the guests instead; as happens by itself where KVM cannot be used
    #[arg(long)]
    pub(super) sim: bool,
    /// Record every run into the folder's raw, but for those under the host's scheduler; costs some throughput
    #[arg(long, conflicts_with = "sim")]
    pub(super) record: bool,
    /// Compare with this report of the same comparison, and exit with 1 if a headline metric is worse by more than the
    /// tolerance and its intervals do not overlap
    #[arg(long, value_name = "OLD/report.json")]
    pub(super) baseline: Option<PathBuf>,
    /// Part by which a figure may be worse than in the baseline
    #[arg(long, value_name = "PART", value_parser = part, default_value = "0.1", requires = "baseline")]
    pub(super) tolerance: f64,
    /// Write the cells as JUnit test cases; those that are worse than in the baseline have failed
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Folder of the report
    #[arg(long, value_name = "DIR", default_value = "stile-report")]
    pub(super) out: PathBuf,
    /// Seed of the order of runs, the guests' randomness and the intervals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
}

/// What is to be compared in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// A suite.
    One(Suite),
    /// The suites of the reports.
    Reports,
}

impl FromStr for Subject {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "reports" => Ok(Self::Reports),
            name => name.parse().map(Self::One).map_err(|e: UnknownSuite| format!("{e}; or reports")),
        }
    }
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if (0.001..=10.0).contains(&part) => Ok(part),
        _ => Err("a part from 0.001 to 10 is accepted, such as 0.05 for 5 %".into()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.01..=86_400.0).contains(&s) => Ok(s),
        _ => Err("seconds from 0.01 to 86400 are accepted".into()),
    }
}

fn setting(text: &str) -> Result<(String, u64), String> {
    let wrong = || "KEY=NUMBER is accepted, with a key of a-z and _, such as hold_ns=500".to_owned();
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    let fits = !key.is_empty() && key.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    match value.parse() {
        Ok(value) if fits => Ok((key.to_owned(), value)),
        _ => Err(wrong()),
    }
}
