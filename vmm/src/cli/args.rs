//! The command line.

use super::guest_images::built_in;
use super::node::args::{Asked, NodeCommand};
use crate::diagnostics::Verbosity;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use stile_compare::Hint;
use stile_config::{PolicyConfig, Span, VmInterrupts};
use stile_host::CpuList;
use stile_suites::{Setup, Suite, UnknownSuite};

/// A virtual machine monitor that schedules its guests' vCPUs itself.
#[derive(Debug, Parser)]
#[command(name = "stile", version, max_term_width = 100)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
    #[command(flatten)]
    pub(super) verbosity: Verbosity,
}

impl Cli {
    /// Parses the command line of this process. Ends the program if it is malformed.
    pub(super) fn of_process() -> Self {
        let words: Vec<OsString> = std::env::args_os().collect();
        Self::understand(&words).unwrap_or_else(|error| error.exit())
    }

    fn understand(words: &[OsString]) -> Result<Self, clap::Error> {
        Self::try_parse_from(words).map_err(|mut error| {
            // A word after a space is not the option's value: it must follow `=`.
            let is_apart = |pair: &[OsString]| pair[0] == "--stats" && seconds(&pair[1].to_string_lossy()).is_ok();
            if let Some([_, value]) = words.windows(2).find(|pair| is_apart(pair)) {
                let tip = format!("write --stats={}", value.to_string_lossy());
                error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
            }
            error
        })
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Run the virtual machines of a configuration file until they end
    Run(RunArgs),
    /// Run a node: VMs are created, changed and watched over its socket until it is ended
    Serve(ServeArgs),
    #[command(flatten)]
    Node(NodeCommand),
    /// Check a configuration file and print the CPU time and the longest wait of each VM; start nothing
    Check(CheckArgs),
    /// Print the JSON Schema of the configuration file
    Schema {
        /// Print the schema of the file of `stile sim` instead
        #[arg(long)]
        sim: bool,
        /// Print the reference of all keys as Markdown instead
        #[arg(long)]
        markdown: bool,
    },
    /// Run a suite of workloads under several policies and write a report that compares them
    Compare(Box<CompareArgs>),
    /// Simulate a suite: models of the guests, the same policies, any number of pCPUs
    Sim(SimArgs),
    /// Print what this host can do, what follows from that, and what to change
    Doctor {
        /// Print JSON
        #[arg(long, conflicts_with = "costs")]
        json: bool,
        /// Measure the cost of an exit, a switch, a kick and a wake-up on this host and print it as JSON, for `stile
        /// sim`
        #[arg(long)]
        costs: bool,
    },
    /// List the images that a configuration can name, and make the Linux guest
    #[command(subcommand)]
    Guest(GuestCommand),
    /// Print the table of an earlier run's report.json, or draw its headline
    Show(ShowArgs),
    /// Convert a recording to a trace for ui.perfetto.dev or chrome://tracing; or the last seconds of a node
    Trace(TraceArgs),
    /// Explain the longest wait of a vCPU: its cause, and which vCPUs ran meanwhile; in a recording, or in the last
    /// seconds of a node
    Why(WhyArgs),
    /// Replay a recording: ask its policy again, compare the decisions, and print the recording's figures
    Replay {
        /// The recording
        recording: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print completions for a shell, for the folder where it looks for them
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write man pages, one for the program and one for each command
    Man {
        /// Folder for the pages
        folder: PathBuf,
    },
    /// Check that a report.json is complete and consistent
    CheckReport {
        /// The report, or its folder
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum GuestCommand {
    /// Make a kernel and an initramfs from Debian's packages, if a package has changed since the last time; needs no
    /// root
    Build {
        /// The guest to make
        guest: GuestImage,
        /// Folder for the files; by default one in the user's cache
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// List the images that a configuration can name: the built-in ones, and the Linux guests that were made
    List,
}

/// A guest that can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum GuestImage {
    /// Debian's cloud kernel, with busybox, hackbench, tbench, cyclictest and pigz
    Linux,
    /// The same with stress-ng and sysbench, whose libraries make it 40 MB larger
    LinuxLarge,
}

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// The configuration file
    pub(super) file: PathBuf,
    /// Policy that replaces that of the file, such as o1 or rsdl:rr_interval=3ms
    #[arg(long, value_name = "POLICY")]
    pub(super) policy: Option<PolicyConfig>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = built_in())]
pub(super) struct RunArgs {
    /// The configuration file
    pub(super) file: PathBuf,
    /// Policy that replaces that of the file, such as o1 or rsdl:rr_interval=3ms
    #[arg(long, value_name = "POLICY")]
    pub(super) policy: Option<PolicyConfig>,
    /// End all virtual machines after this many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub(super) limit: Option<f64>,
    /// Record every question to the policy and every decision in this file, for trace, why and replay
    #[arg(long, value_name = "PATH")]
    pub(super) record: Option<PathBuf>,
    /// Print tables of how the vCPUs spend their time: at this interval, by default 1 s, and at the end
    #[arg(long, value_name = "SECONDS", value_parser = seconds, num_args = 0..=1, require_equals = true,
          default_missing_value = "1")]
    pub(super) stats: Option<f64>,
    /// Write the same figures to this file as JSON, a line for each table
    #[arg(long, value_name = "FILE")]
    pub(super) stats_json: Option<PathBuf>,
    /// Write the output of the guests to this file: unchanged if there is one VM, else line by line behind the VM's
    /// name
    #[arg(long, value_name = "FILE")]
    pub(super) console: Option<PathBuf>,
    /// Overwrite a recording that exists
    #[arg(long, requires = "record")]
    pub(super) force: bool,
    /// Serve the API of a node on this socket meanwhile: `stile top`, `set`, `policy` and the like show and change the
    /// run. It ends once no VM runs any more
    #[arg(long, value_name = "PATH", conflicts_with_all = ["record", "stats", "stats_json"])]
    pub(super) socket: Option<PathBuf>,
    /// Start Linux guests on hosts where they are known not to run
    #[arg(long)]
    pub(super) try_linux: bool,
    /// Run without the jail, which bounds what the process can do if a guest takes it over
    #[arg(long)]
    pub(super) no_jail: bool,
}

#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// Configuration file with the pCPUs, the policy, and VMs to start with; there may be none
    pub(super) config: Option<PathBuf>,
    /// The socket to listen on; by default that in STILE_SOCKET, or stile/stile.sock in XDG_RUNTIME_DIR, for root in
    /// /run. The service manager may give one instead
    #[arg(long, value_name = "PATH")]
    pub(super) socket: Option<PathBuf>,
    /// Serve a page that shows the node, and the API for reading, at this address of the loopback interface
    #[arg(long, value_name = "127.0.0.1:PORT")]
    pub(super) http: Option<SocketAddr>,
    /// A folder from which VMs may have images, disks and sockets, beside those that the configuration names. May be
    /// repeated
    #[arg(long, value_name = "FOLDER")]
    pub(super) files: Vec<PathBuf>,
    /// The folder in which recordings are made
    #[arg(long, value_name = "FOLDER")]
    pub(super) recordings: Option<PathBuf>,
    /// Policy that replaces that of the file
    #[arg(long, value_name = "POLICY")]
    pub(super) policy: Option<PolicyConfig>,
    /// Create the configuration's VMs and do not start them
    #[arg(long)]
    pub(super) no_start: bool,
    /// How long Linux guests have to switch themselves off when the node ends
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub(super) grace: Span,
    /// Start Linux guests on hosts where they are known not to run
    #[arg(long)]
    pub(super) try_linux: bool,
    /// Run without the jail, which bounds what the process can do if a guest takes it over
    #[arg(long)]
    pub(super) no_jail: bool,
}

#[derive(Debug, Args)]
pub(super) struct TraceArgs {
    /// The recording; without one a node is asked
    #[arg(required_unless_present = "last")]
    pub(super) recording: Option<PathBuf>,
    /// Ask a node for the decisions of this last time, such as 10s
    #[arg(long, value_name = "TIME", conflicts_with = "recording")]
    pub(super) last: Option<Span>,
    /// Write what a node answers as a recording, for `stile why` and `stile trace`
    #[arg(long, requires = "last")]
    pub(super) recorded: bool,
    /// File to write; by default the trace goes to standard output
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    /// Overwrite a file that exists
    #[arg(long, requires = "out")]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) node: Asked,
}

#[derive(Debug, Args)]
pub(super) struct WhyArgs {
    /// A vCPU by name, such as worker-0/1, or by id, such as v5; or a VM by name, for all its vCPUs
    pub(super) vcpu: String,
    /// The recording; without one a node is asked about its last seconds
    pub(super) recording: Option<PathBuf>,
    /// How far a node looks back, such as 10s
    #[arg(long, value_name = "TIME", conflicts_with = "recording")]
    pub(super) last: Option<Span>,
    #[command(flatten)]
    pub(super) node: Asked,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The report, or the folder that it is in
    pub(super) file: PathBuf,
    /// Print the table as Markdown
    #[arg(long)]
    pub(super) markdown: bool,
    /// Compute ratios to this policy, one of the report's, instead of the report's own reference
    #[arg(long, value_name = "POLICY")]
    pub(super) reference: Option<String>,
    /// Draw throughput and p99 latency relative to the reference into this SVG file, and print nothing
    #[arg(long, value_name = "FILE.svg", conflicts_with = "markdown")]
    pub(super) svg: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct SimArgs {
    /// File that says what to simulate: suite, policies, sizes, pCPUs, costs
    #[arg(required_unless_present = "replay")]
    pub(super) file: Option<PathBuf>,
    /// Replay a recorded run of a suite, simulate the same run, and print both with the ratio of each figure
    #[arg(long, value_name = "RECORDING", conflicts_with_all = ["file", "record"])]
    pub(super) replay: Option<PathBuf>,
    /// Folder of the report; by default a fresh one: stile-report, or the first of stile-report-2, stile-report-3, ...
    /// that is not in use. A folder that holds a report is refused without --force
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Replace a report in the folder of --out
    #[arg(long)]
    pub(super) force: bool,
    /// Record every run in the folder's raw, for trace, why and replay; runs under the host's scheduler are not
    /// recorded
    #[arg(long)]
    pub(super) record: bool,
}

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    #[arg(default_value = "netbench", help = subjects())]
    pub(super) suite: Subject,
    /// The guests: builtin for the suite's own, linux for the image of `stile guest build linux`, or linux:DIR for an
    /// image in its --out DIR
    #[arg(long, value_name = "GUEST", default_value = "builtin")]
    pub(super) guest: GuestKind,
    /// Where the interrupt controllers of Linux guests are: kernel, user, or auto for user where executors carry them
    #[arg(long, value_name = "WHERE", default_value = "auto")]
    pub(super) interrupts: InterruptsArg,
    /// Replace a report in the folder of --out
    #[arg(long)]
    pub(super) force: bool,
    /// Start Linux guests on hosts where they are known not to run
    #[arg(long)]
    pub(super) try_linux: bool,
    /// Run without the jail, which bounds what the process can do if a guest takes it over
    #[arg(long)]
    pub(super) no_jail: bool,
    #[arg(long, value_name = "LIST", value_delimiter = ',', help = policies())]
    pub(super) policies: Vec<PolicyConfig>,
    /// The policy that ratios refer to, one of those compared; by default host. `stile show FILE --reference POLICY`
    /// computes ratios to another policy of a report
    #[arg(long, value_name = "POLICY")]
    pub(super) reference: Option<String>,
    /// Numbers of vCPUs, a run for each (suites with a number of vCPUs)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = number::<1024>)]
    pub(super) vcpus: Vec<u32>,
    /// Numbers of client VMs (netbench) or of clients in their VM (tbench), a run for each
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = number::<500>)]
    pub(super) clients: Vec<u32>,
    /// Numbers of VMs, a run for each: all started at once (boot), or all but one computing (cyclictest)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = number::<1000>)]
    pub(super) vms: Vec<u32>,
    /// Setups of the suite: up, smp, affinity (netbench); up, smp (volano); none, memload, execload, forkload, make,
    /// make-ccache (interactive: the load beside the probes); up, smp, bare-up, bare-smp (entry); no-locks, locks
    /// (partition); VCPUSxMEMORY such as 4x16M (boot, and all with Linux guests, by default 2x256M). By default all,
    /// and smp for netbench
    #[arg(long = "setup", value_name = "LIST", value_delimiter = ',')]
    pub(super) setups: Vec<Setup>,
    /// Numbers of groups of 40 vCPUs, or of Linux guests with a group each, a run for each (hackbench)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = number::<500>)]
    pub(super) groups: Vec<u32>,
    /// Numbers of chat rooms, a run for each (volano)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = number::<500>)]
    pub(super) rooms: Vec<u32>,
    /// Number of rounds; in each round every policy runs once with every size and setup
    #[arg(long, value_name = "N", value_parser = number::<1000>)]
    pub(super) reps: Option<u32>,
    /// Run five rounds, and more until the interval of each headline ratio is no wider than this part of the ratio,
    /// such as 0.05
    #[arg(long, value_name = "WIDTH", value_parser = part, conflicts_with = "reps")]
    pub(super) until: Option<f64>,
    /// Start no round that would end after this time
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "600", requires = "until")]
    pub(super) limit: f64,
    /// Length of each measured window; by default it follows from the time that the whole comparison may take
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) duration: Option<f64>,
    /// Host CPUs to run on, such as 0-1 or 0,2; by default all that this process may use; with --sim any numbers
    #[arg(long, value_name = "LIST")]
    pub(super) pcpus: Option<CpuList>,
    /// The hints that guests give while they wait (silent: cannot be simulated)
    #[arg(long, value_enum, default_value = "full")]
    pub(super) hint: Hint,
    /// A parameter of the guests' workload, such as hold_ns=500; may be repeated
    #[arg(long = "set", value_name = "KEY=NUMBER", value_parser = setting)]
    pub(super) settings: Vec<(String, u64)>,
    /// A short run: at most 20 s on 2 CPUs, 30 s for interactive
    #[arg(long)]
    pub(super) quick: bool,
    /// All sizes, setups and policies of the published report that the suite repeats, if it repeats one, with windows
    /// of 3 s, however long that takes
    #[arg(long, conflicts_with = "quick")]
    pub(super) full: bool,
    /// Simulate models of the guests; without this option that happens only where KVM cannot be used
    #[arg(long)]
    pub(super) sim: bool,
    /// Record every run in the folder's raw, except those under the host's scheduler; this costs some throughput
    #[arg(long, conflicts_with = "sim")]
    pub(super) record: bool,
    /// Compare with an earlier report of the same comparison, named by its file or folder, and exit with 1 if a
    /// headline metric is worse by more than the tolerance and its intervals do not overlap. There is a warning if
    /// every run of a policy was disturbed in that report
    #[arg(long, value_name = "OLD/report.json")]
    pub(super) baseline: Option<PathBuf>,
    /// Refuse a baseline in which every run of a policy was disturbed, with exit code 2, instead of the warning
    #[arg(long, requires = "baseline")]
    pub(super) strict_baseline: bool,
    /// Part by which a figure may be worse than in the baseline
    #[arg(long, value_name = "PART", value_parser = part, default_value = "0.1", requires = "baseline")]
    pub(super) tolerance: f64,
    /// Write the cells to this file as JUnit test cases; a cell that is worse than in the baseline is a failed case
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Folder of the report; by default a fresh one: stile-report, or the first of stile-report-2, stile-report-3, ...
    /// that is not in use. A folder that holds a report is refused without --force
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Seed of the order of runs, the guests' randomness and the intervals
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
}

/// Help for `compare --policies`.
fn policies() -> String {
    let names: Vec<&str> = PolicyConfig::names().collect();
    format!(
        "Policies: {}, also with options, such as rsdl:rr_interval=3ms; host twice for an A/A run. By default host and rsdl; \
         for entry freelist as well, for a full netbench o1, for interactive all of host and rsdl, for hackbench \
         rsdl:no-lateral:no-adaptive and rsdl:no-adaptive, and for volano goodness:yield_recalculates:yield_bounces, goodness \
         and rsdl+expire",
        names.join(", ")
    )
}

/// The kind of guests that a comparison runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GuestKind {
    /// The suite's own.
    Builtin,
    /// Linux, of the image in this folder, or in the cache.
    Linux(Option<PathBuf>),
}

impl FromStr for GuestKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name.split_once(':') {
            None if name == "builtin" => Ok(Self::Builtin),
            None if name == "linux" => Ok(Self::Linux(None)),
            Some(("linux", folder)) if !folder.is_empty() => Ok(Self::Linux(Some(folder.into()))),
            _ => Err("builtin, linux and linux:DIR are accepted".to_owned()),
        }
    }
}

/// Where the interrupt controllers of Linux guests are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InterruptsArg(pub(super) VmInterrupts);

impl FromStr for InterruptsArg {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "auto" => Ok(Self(VmInterrupts::Auto)),
            "kernel" => Ok(Self(VmInterrupts::Kernel)),
            "user" => Ok(Self(VmInterrupts::User)),
            _ => Err("auto, kernel and user are accepted".to_owned()),
        }
    }
}

/// The accepted subjects, for `--help`.
fn subjects() -> String {
    let with = |wanted: fn(Suite) -> bool| {
        one_of(&Suite::ALL.into_iter().filter(|suite| wanted(*suite)).map(Suite::name).collect::<Vec<_>>())
    };
    format!(
        "{}; with Linux guests {}; or reports, for the suites that repeat published reports on schedulers \
         (docs/suites.md), one after the other in a quarter of an hour",
        with(|suite| !suite.is_of_linux()),
        with(Suite::takes_linux)
    )
}

/// "a, b or c".
pub(super) fn one_of(names: &[&str]) -> String {
    match names {
        [others @ .., last] if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// The subject of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// One suite.
    One(Suite),
    /// The suites that repeat published reports, one after the other.
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

/// Parses a number from 1 to `MAX`.
fn number<const MAX: u32>(text: &str) -> Result<u32, String> {
    let number = text.trim().parse().ok().filter(|number| (1..=MAX).contains(number));
    number.ok_or_else(|| format!("whole numbers from 1 to {MAX} are accepted; numbers of a list stand between commas"))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(words: &str) -> String {
        let words: Vec<OsString> = words.split(' ').map(OsString::from).collect();
        Cli::understand(&words).unwrap_err().to_string()
    }

    #[test]
    fn seconds_of_stats_apart_from_it_are_told_how_to_be_written() {
        let told = refused("stile run a.toml --stats 5");
        assert!(told.contains("write --stats=5"), "{told}");
        assert!(!refused("stile run a.toml --stat").contains("--stats="));
    }

    #[test]
    fn a_size_that_is_no_number_is_told_with_the_option_and_what_is_accepted() {
        for (words, accepted) in
            [("--vcpus 4,x", "1 to 1024"), ("--clients 4,501", "1 to 500"), ("--reps 0", "1 to 1000")]
        {
            let told = refused(&format!("stile compare ticket {words}"));
            let option = words.split(' ').next().unwrap();
            assert!(told.contains(option) && told.contains(accepted), "{told}");
        }
    }
}
