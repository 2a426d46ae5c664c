//! `stile serve`: a node, and its API on a unix socket.

use super::args::ServeArgs;
use super::failure::Failure;
use super::{interrupt, jail, notify, pipe, small};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stile_api::Problem;
use stile_config::Config;
use stile_host::open_kvm;
use stile_node::{Node, NodeOptions};
use stile_serve::{Listeners, Server, SocketError, default_path, listen};
use tracing::{error, info};

/// Time between two looks for a signal, and for the service manager.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) fn serve(args: &ServeArgs) -> Result<(), Failure> {
    let config = small::load_node(args.config.as_deref(), args.policy.as_ref())?;
    super::run::raise_descriptors();
    let kvm = open_kvm().map_err(Failure::NoKvm)?;
    let path = args.socket.clone().unwrap_or_else(default_path);
    let (socket, is_own) = match notify::given_socket().map_err(Failure::run)? {
        Some(socket) => (socket, false),
        None => (listen(&path).map_err(not_listening)?, true),
    };
    let listeners = Listeners::new(socket, args.http).map_err(Failure::input)?;
    let http = listeners.http();
    let files = folders("--files", &args.files)?;
    let recordings = args.recordings.as_deref().map(|folder| canonical("--recordings", folder)).transpose()?;
    let missing = jail::of_node(args, &config, &files, recordings.as_deref(), is_own.then_some(&*path))?;
    let interrupted = interrupt::on_interrupt_or_end()?;
    // A client that goes in the midst of its answer, or a log that nobody reads any more, must not end the node.
    pipe::tell_when_closed(&Arc::default()).map_err(Failure::run)?;
    let options =
        NodeOptions { files: (!args.no_jail).then_some(files), recordings, try_linux: args.try_linux, jail: missing };
    let node = Node::new(kvm, &config, options).map_err(refused)?;
    // Its threads have rights that this one is about to give up.
    let server = Server::start(Arc::clone(&node), listeners).map_err(Failure::run)?;
    jail::all_is_open();
    let begun = create_all(&node, &config, args.no_start);
    info!("listens on {}{}", path.display(), http.map(|at| format!(" and http://{at}/")).unwrap_or_default());
    let mut manager = notify::Manager::new();
    manager.ready();
    while !interrupted.load(Ordering::Relaxed) && begun.is_ok() {
        manager.alive();
        std::thread::sleep(LOOK_EVERY);
    }
    manager.stopping();
    let hanging = node.stop_all(args.grace.duration());
    drop(server);
    if is_own {
        // Somebody may have removed it.
        let _ = std::fs::remove_file(&path);
    }
    begun?;
    match hanging.as_slice() {
        [] => Ok(()),
        hanging => {
            for vm in hanging {
                error!(
                    remedy = "look for what keeps this process's threads: cat /proc/PID/task/*/wchan",
                    "[{vm}] does not end: its vCPUs have not left the host's kernel"
                );
            }
            // To free the VMs would be to wait for them.
            std::process::exit(1);
        }
    }
}

/// Creates and starts the VMs of the configuration.
fn create_all(node: &Node, config: &Config, no_start: bool) -> Result<(), Failure> {
    node.create_config(config).map_err(refused)?;
    if no_start {
        return Ok(());
    }
    node.vms().iter().try_for_each(|vm| node.start(vm.name()).map(drop)).map_err(refused)
}

/// The failure that a node has this problem.
pub(super) fn refused(problem: Problem) -> Failure {
    Failure::Input(match &problem.remedy {
        Some(remedy) => miette::miette!(help = remedy.clone(), "{problem}"),
        None => miette::miette!("{problem}"),
    })
}

fn not_listening(error: SocketError) -> Failure {
    let remedy = error.remedy();
    Failure::Input(miette::Report::from_err(error).wrap_err(remedy))
}

fn folders(option: &str, folders: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    folders.iter().map(|folder| canonical(option, folder)).collect()
}

fn canonical(option: &str, folder: &Path) -> Result<PathBuf, Failure> {
    let path = folder.canonicalize().map_err(|e| e.to_string());
    let path = path.and_then(|path| if path.is_dir() { Ok(path) } else { Err("it is no folder".to_owned()) });
    path.map_err(|e| {
        let help = "name a folder that is there and can be read";
        Failure::Input(miette::miette!(help = help, "{option} {}: {e}", folder.display()))
    })
}
