//! `stile serve`: a node, and its API on a unix socket.

use super::args::ServeArgs;
use super::failure::Failure;
use super::{interrupt, jail, notify, pipe, small};
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use stile_api::Problem;
use stile_config::Config;
use stile_host::open_kvm;
use stile_machine::vm::console::Sink;
use stile_node::{Node, NodeOptions};
use stile_serve::{Listeners, Server, SocketError, default_path, listen};
use tracing::{error, info};

/// Time between two looks for a signal, and for the service manager.
const LOOK_EVERY: Duration = Duration::from_millis(50);

pub(super) fn serve(args: &ServeArgs) -> Result<(), Failure> {
    let config = small::load_node(args.config.as_deref(), args.policy.as_ref())?;
    let files = folders("--files", &args.files)?;
    let recordings = args.recordings.as_deref().map(|folder| canonical("--recordings", folder)).transpose()?;
    let interrupted = interrupt::on_interrupt_or_end()?;
    // A client that goes in the midst of its answer, or a log that nobody reads any more, must not end the node.
    pipe::tell_when_closed(&Arc::default()).map_err(Failure::run)?;
    let served = Served::open(Wanted {
        config: &config,
        given: notify::given_socket().map_err(Failure::run)?,
        socket: args.socket.clone().unwrap_or_else(default_path),
        http: args.http,
        files,
        recordings,
        echo: None,
        try_linux: args.try_linux,
        no_jail: args.no_jail,
    })?;
    let begun = served.create_all(&config, args.no_start);
    served.tell();
    let mut manager = notify::Manager::new();
    manager.ready();
    while !interrupted.load(Ordering::Relaxed) && begun.is_ok() {
        manager.alive();
        std::thread::sleep(LOOK_EVERY);
    }
    manager.stopping();
    let ended = served.end(args.grace.duration());
    begun?;
    if ended.is_err() {
        // To free the VMs would be to wait for them.
        std::process::exit(1);
    }
    Ok(())
}

/// What a node with an API is made of.
pub(super) struct Wanted<'a> {
    pub(super) config: &'a Config,
    /// The socket of the service manager, in place of an own one.
    pub(super) given: Option<UnixListener>,
    pub(super) socket: PathBuf,
    pub(super) http: Option<SocketAddr>,
    /// Folders from which VMs may have files.
    pub(super) files: Vec<PathBuf>,
    pub(super) recordings: Option<PathBuf>,
    /// Where what guests print goes, besides their consoles on the node.
    pub(super) echo: Option<Sink>,
    pub(super) try_linux: bool,
    pub(super) no_jail: bool,
}

/// A node with an API, in the jail.
pub(super) struct Served {
    pub(super) node: Arc<Node>,
    server: Server,
    socket: PathBuf,
    /// This process has made the socket, and removes it.
    is_own: bool,
    http: Option<SocketAddr>,
}

/// VMs have not ended; it was told which.
pub(super) struct Hanging;

impl Served {
    /// Opens all that the node needs, enters the jail, and takes requests. The node has no VMs yet.
    pub(super) fn open(wanted: Wanted<'_>) -> Result<Self, Failure> {
        let Wanted { config, given, socket, files, recordings, echo, try_linux, no_jail, .. } = wanted;
        super::ext::not_on_a_node(&config.policy)?;
        super::run::raise_descriptors();
        let kvm = open_kvm().map_err(Failure::NoKvm)?;
        let is_own = given.is_none();
        let listener = given.map_or_else(|| listen(&socket).map_err(not_listening), Ok)?;
        let listeners = Listeners::new(listener, wanted.http).map_err(Failure::input)?;
        let http = listeners.http();
        let rights = jail::OfNode { config, files: &files, recordings: recordings.as_deref(), socket: &socket, is_own };
        let jail = rights.enter(no_jail)?;
        let options = NodeOptions { files: (!no_jail).then_some(files), echo, recordings, try_linux, jail };
        let node = Node::new(kvm, config, options).map_err(refused)?;
        // Its threads have rights that this one is about to give up.
        let server = Server::start(Arc::clone(&node), listeners).map_err(Failure::run)?;
        jail::all_is_open();
        Ok(Self { node, server, socket, is_own, http })
    }

    /// Creates the VMs of a configuration, and starts them in its order.
    pub(super) fn create_all(&self, config: &Config, no_start: bool) -> Result<(), Failure> {
        let names = self.node.create_config(config).map_err(refused)?;
        if no_start {
            return Ok(());
        }
        names.iter().try_for_each(|name| self.node.start(name).map(drop)).map_err(refused)
    }

    /// Tells where it listens.
    pub(super) fn tell(&self) {
        let http = self.http.map(|at| format!(" and http://{at}/")).unwrap_or_default();
        info!("listens on {}{http}", self.socket.display());
    }

    /// Stops all VMs, and takes no more requests. Linux guests have so long to switch themselves off.
    pub(super) fn end(self, grace: Duration) -> Result<(), Hanging> {
        let hanging = self.node.stop_all(grace);
        drop(self.server);
        if self.is_own {
            // Somebody may have removed it.
            let _ = std::fs::remove_file(&self.socket);
        }
        for vm in &hanging {
            error!(
                remedy = "look for what keeps this process's threads: cat /proc/PID/task/*/wchan",
                "[{vm}] does not end: its vCPUs have not left the host's kernel"
            );
        }
        if hanging.is_empty() { Ok(()) } else { Err(Hanging) }
    }
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
