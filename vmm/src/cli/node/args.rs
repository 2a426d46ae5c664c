//! The command line of the commands that ask a node.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use stile_config::{PolicyConfig, Span};
use stile_host::CpuList;

/// Where the node is, and how its answer is printed.
#[derive(Debug, Args)]
pub(in crate::cli) struct Asked {
    /// The node's socket; by default that in STILE_SOCKET, or the user's default place
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) socket: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum NodeCommand {
    /// List the VMs of a node
    Ps(PsArgs),
    /// Describe a VM of a node in full, with its figures
    Inspect(VmArgs),
    /// Create the VMs of a configuration file on a node
    Create(CreateArgs),
    /// Start VMs of a node that are stopped
    Start(VmsArgs),
    /// Pause VMs of a node: their vCPUs keep their state and run no guest code
    Pause(VmsArgs),
    /// Let paused VMs of a node go on
    Resume(VmsArgs),
    /// Stop VMs of a node, and wait for their end
    Stop(StopArgs),
    /// Delete VMs of a node that are stopped
    Delete(DeleteArgs),
    /// Print what a VM of a node has printed, or attach to its console
    Console(ConsoleArgs),
    /// Change how VMs of a node are scheduled, running or not
    Set(SetArgs),
    /// Print the policy of a node, or change it while the VMs run
    Policy(PolicyArgs),
    /// Print the pCPUs of a node, or change them while the VMs run
    Pcpus(PcpusArgs),
    /// List the changes of how a node schedules
    Changes(PsArgs),
    /// Keep a change that waits to be confirmed
    Confirm(ChangeArgs),
    /// Take a change back that waits to be confirmed
    Revert(ChangeArgs),
    /// Print what happens on a node, as it happens
    Events(EventsArgs),
    /// Record all decisions of a node in a file
    Record(RecordArgs),
    /// Show the VMs, vCPUs and pCPUs of a node, live
    Top(TopArgs),
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PsArgs {
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct VmArgs {
    /// The VM
    pub(in crate::cli) vm: String,
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct VmsArgs {
    /// The VMs
    #[arg(required = true)]
    pub(in crate::cli) vms: Vec<String>,
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct CreateArgs {
    /// The configuration file; its VMs are created, its pCPUs and its policy are not used
    pub(in crate::cli) file: PathBuf,
    /// Start them as well
    #[arg(long)]
    pub(in crate::cli) start: bool,
    /// Only check whether the node could create them
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct StopArgs {
    /// The VMs
    #[arg(required = true)]
    pub(in crate::cli) vms: Vec<String>,
    /// Stop at once, without pressing the guest's power button
    #[arg(long)]
    pub(in crate::cli) hard: bool,
    /// How long a Linux guest has to switch itself off, such as 30s
    #[arg(long, value_name = "TIME", default_value = "30s", conflicts_with = "hard")]
    pub(in crate::cli) grace: Span,
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct DeleteArgs {
    /// The VMs
    #[arg(required = true)]
    pub(in crate::cli) vms: Vec<String>,
    /// Stop those first, at once, that run
    #[arg(long)]
    pub(in crate::cli) force: bool,
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ConsoleArgs {
    /// The VM
    pub(in crate::cli) vm: String,
    /// Go on printing, and send what is typed to a Linux guest. Ctrl-A x ends it
    #[arg(long, short)]
    pub(in crate::cli) attach: bool,
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

/// How a change is made.
#[derive(Debug, Args)]
pub(in crate::cli) struct ChangeOptions {
    /// Only check whether it could be done, and tell what would change
    #[arg(long)]
    pub(in crate::cli) dry_run: bool,
    /// Take the change back after this time, such as 30s, unless `stile confirm` keeps it
    #[arg(long, value_name = "TIME")]
    pub(in crate::cli) confirm_within: Option<Span>,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct SetArgs {
    /// The VM
    pub(in crate::cli) vm: String,
    /// What to change: nice=5, class=batch, cap=0.5 or cap=none, cap_period=100ms
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = pair)]
    pub(in crate::cli) settings: Vec<(String, String)>,
    #[command(flatten)]
    pub(in crate::cli) change: ChangeOptions,
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PolicyArgs {
    /// The policy to change to, such as credit2 or rsdl:rr_interval=3ms; without one the present one is printed
    pub(in crate::cli) policy: Option<PolicyConfig>,
    /// A key of the policy to change, such as rr_interval=3ms; the others stay. May be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = pair, conflicts_with = "policy")]
    pub(in crate::cli) keys: Vec<(String, String)>,
    #[command(flatten)]
    pub(in crate::cli) change: ChangeOptions,
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct PcpusArgs {
    /// The host CPUs to change to, such as 0-1,4; without them the present ones are printed
    pub(in crate::cli) pcpus: Option<CpuList>,
    #[command(flatten)]
    pub(in crate::cli) change: ChangeOptions,
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct ChangeArgs {
    /// Number of the change
    pub(in crate::cli) id: u64,
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct EventsArgs {
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct RecordArgs {
    /// Name of the file in the node's folder of recordings; without one the recording under way is printed
    #[arg(conflicts_with = "end")]
    pub(in crate::cli) name: Option<String>,
    /// End the recording under way
    #[arg(long)]
    pub(in crate::cli) end: bool,
    #[command(flatten)]
    pub(in crate::cli) node: Asked,
}

#[derive(Debug, Args)]
pub(in crate::cli) struct TopArgs {
    /// Time between two looks, from 100ms on
    #[arg(long, value_name = "TIME", default_value = "1s")]
    pub(in crate::cli) interval: Span,
    /// Use no colours; so does NO_COLOR in the environment
    #[arg(long)]
    pub(in crate::cli) no_color: bool,
    /// The node's socket; by default that in STILE_SOCKET, or the user's default place
    #[arg(long, value_name = "PATH")]
    pub(in crate::cli) socket: Option<PathBuf>,
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !value.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("KEY=VALUE is accepted, such as nice=5".to_owned()),
    }
}
