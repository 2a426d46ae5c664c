//! The node, and its VMs by name.

use crate::bus::{Bus, now};
use crate::files::{Allowed, NotAllowed};
use crate::images::{Guest, Unfit, linux_unsuited};
use crate::keeper::{self, Keeper};
use crate::log::Log;
use crate::networks::Networks;
use crate::scheduling::{Scheduling, Undo};
use crate::vm::{NodeVm, Read};
use kvm_ioctls::Kvm;
use parking_lot::{Mutex, RwLock};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use stile_api::{Happened, NodeInfo, Problem, Reason, VmDetails, VmInfo};
use stile_config::{Config, LoadContext, VmConfig};
use stile_host::CpuList;
use stile_machine::devices::virtio::Tell;
use stile_machine::vm::console::Sink;
use stile_recording::Recorder;
use stile_sched::domain::switchable::Switchable;
use stile_sched::domain::watchdog::Watchdog;
use stile_sched::{Domain, VcpuId};
use tracing::warn;

/// What a node is made with besides its configuration.
#[derive(Clone, Default)]
pub struct NodeOptions {
    /// The folders from which VMs may have files, beside those that the configuration names; `None`: any.
    pub files: Option<Vec<PathBuf>>,
    /// Where what VMs print goes as well; `None`: only readers of their consoles see it.
    pub echo: Option<Sink>,
    /// The folder of recordings; `None`: none can be made.
    pub recordings: Option<PathBuf>,
    /// Start Linux guests where they are known not to run.
    pub try_linux: bool,
    /// What the jail lacks, for the node's description.
    pub jail: Vec<String>,
}

/// A node.
pub struct Node {
    pub(crate) kvm: Kvm,
    pub(crate) domain: Arc<Switchable>,
    pub(crate) as_domain: Arc<dyn Domain>,
    pub(crate) networks: Arc<Networks>,
    pub(crate) bus: Bus,
    pub(crate) tell: Tell,
    pub(crate) options: NodeOptions,
    files: Allowed,
    available: CpuList,
    started_at: f64,
    pub(crate) halt_poll: stile_config::HaltPoll,
    pub(crate) vms: RwLock<BTreeMap<String, Arc<NodeVm>>>,
    /// Read while a vCPU joins the domain, written while the domain changes.
    pub(crate) scheduling: RwLock<Scheduling>,
    /// Held over a change, with its log.
    pub(crate) log: Mutex<Log<Undo>>,
    pub(crate) watchdog: Mutex<Option<Watchdog>>,
    /// How often a domain has gone on with the vCPUs of another.
    pub(crate) handovers: AtomicU64,
    pub(crate) recording: Mutex<Option<Recorder>>,
    /// True: the node ends, and no VM starts any more. A start holds it for reading.
    pub(crate) ends: RwLock<bool>,
    pub(crate) keeper: Keeper,
}

impl Node {
    /// A node with the policy and the pCPUs of this configuration. Its VMs are created with [`Node::create_config`].
    ///
    /// # Errors
    /// The host gives no thread.
    pub fn new(kvm: Kvm, config: &Config, options: NodeOptions) -> Result<Arc<Self>, Problem> {
        let scheduling = Scheduling::of(config);
        let domain = scheduling.domain()?;
        let numbers = scheduling.numbers();
        let domain = Arc::new(Switchable::new(domain, &numbers));
        let failed = |e: &dyn std::error::Error| Problem::of(Reason::Unsupported, "the node cannot be made", e);
        let available = stile_host::allowed_cpus().map_err(|e| failed(&e))?;
        let (keeper, inbox) = Keeper::new();
        let node = Arc::new(Self {
            kvm,
            as_domain: Arc::clone(&domain) as Arc<dyn Domain>,
            domain,
            networks: Arc::default(),
            bus: Bus::default(),
            tell: Arc::new(|text: &str| warn!("{text}")),
            files: Allowed::new(options.files.clone(), config),
            options,
            available,
            started_at: now(),
            halt_poll: config.host.halt_poll,
            vms: RwLock::default(),
            scheduling: RwLock::new(scheduling),
            log: Mutex::default(),
            watchdog: Mutex::default(),
            handovers: AtomicU64::default(),
            recording: Mutex::default(),
            ends: RwLock::default(),
            keeper,
        });
        keeper::start(&node, inbox).map_err(|e| failed(&e))?;
        node.watch();
        Ok(node)
    }

    /// What happens from now on.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    pub(crate) fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// The host CPUs that could be pCPUs.
    pub fn available(&self) -> &CpuList {
        &self.available
    }

    /// The node as a whole.
    pub fn info(&self) -> NodeInfo {
        let (awaiting, scheduling) = (self.log.lock().awaiting(), self.scheduling.read());
        let vms = self.vms.read();
        let running = |vm: &Arc<NodeVm>| vm.machine().map_or(0, |machine| machine.vm.vcpu_set().status().vcpus());
        NodeInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            started_at: self.started_at,
            policy: scheduling.policy.to_string(),
            mechanism: scheduling.mechanism().to_owned(),
            pcpus: scheduling.pcpus.iter().collect(),
            vms: vms.len(),
            vcpus: vms.values().map(|vm| running(vm) as usize).sum(),
            awaiting,
            jail: self.options.jail.clone(),
        }
    }

    /// All VMs, by name.
    pub fn vms(&self) -> Vec<Arc<NodeVm>> {
        self.vms.read().values().cloned().collect()
    }

    /// All VMs in short.
    pub fn list(&self) -> Vec<VmInfo> {
        self.vms().iter().map(|vm| vm.info()).collect()
    }

    /// The VM of this name.
    pub fn vm(&self, name: &str) -> Result<Arc<NodeVm>, Problem> {
        self.vms.read().get(name).cloned().ok_or_else(|| {
            Problem::new(Reason::NotFound, format!("there is no VM {:?}", name.escape_debug().to_string()))
                .remedy("`stile ps` lists the VMs")
        })
    }

    /// The VM of this name in full.
    pub fn inspect(&self, name: &str) -> Result<VmDetails, Problem> {
        let vm = self.vm(name)?;
        let read: Option<Read> = vm.read(self.as_domain.has_policy());
        Ok(vm.details(read))
    }

    /// Creates a VM from the keys of `[[vm]]`. It does not run yet.
    pub fn create(&self, table: &Map<String, Value>, dry_run: bool) -> Result<VmInfo, Problem> {
        let context = self.context();
        let config = stile_config::vm_of(table, &context).map_err(|e| Problem::of_config("vm[0]", &e))?;
        if config.count != 1 {
            let many = format!("count: {} VMs, where one is created at a time", config.count);
            return Err(Problem::new(Reason::Conflict, many).remedy("leave out `count`, and create each by its name"));
        }
        let name = config.name.as_str().to_owned();
        self.check(&name, &config)?;
        let vm = Arc::new(NodeVm::new(&name, config));
        if dry_run {
            let taken = self.vms.read().contains_key(&name);
            return if taken { Err(taken_name(&name)) } else { Ok(vm.info()) };
        }
        self.enter(vm)
    }

    /// Creates the VMs of a configuration that was read and checked. They do not run yet. Returns their names in the
    /// order of the file. Started in that order, they have the ports of networks that `stile run` gives them.
    pub fn create_config(&self, config: &Config) -> Result<Vec<String>, Problem> {
        let mut names = Vec::new();
        for vm in &config.vms {
            for name in vm.instance_names() {
                self.check(&name, vm)?;
                self.enter(Arc::new(NodeVm::new(&name, VmConfig { count: 1, ..vm.clone() })))?;
                names.push(name);
            }
        }
        Ok(names)
    }

    fn enter(&self, vm: Arc<NodeVm>) -> Result<VmInfo, Problem> {
        let info = vm.info();
        let mut vms = self.vms.write();
        if vms.contains_key(vm.name()) {
            return Err(taken_name(vm.name()));
        }
        vms.insert(vm.name().to_owned(), vm);
        drop(vms);
        self.bus.tell(Happened::Created { vm: info.name.clone() });
        Ok(info)
    }

    /// Checks what a VM is made of: that it suits this host, and that its files may be used and fit.
    fn check(&self, name: &str, config: &VmConfig) -> Result<(), Problem> {
        if config.kernel.is_some()
            && !self.options.try_linux
            && let Some(why) = linux_unsuited()
        {
            return Err(Problem::new(Reason::Unsupported, format!("VM {name}: {why}"))
                .remedy("use a host with VMX or SVM, or start the node with --try-linux"));
        }
        self.may_use_files(name, config)?;
        self.open(name, config).map(drop)
    }

    pub(crate) fn open(&self, name: &str, config: &VmConfig) -> Result<Guest, Problem> {
        Guest::open(config).map_err(|Unfit { key, wrong, remedy }| {
            let problem = Problem::new(Reason::Conflict, format!("VM {name}: {key}: {wrong}"));
            Problem { remedy, ..problem }
        })
    }

    pub(crate) fn may_use_files(&self, name: &str, config: &VmConfig) -> Result<(), Problem> {
        self.files.allow(config).map_err(|NotAllowed { key, path }| {
            let path = path.display();
            Problem::new(Reason::Forbidden, format!("VM {name}: {key}: this node may not use {path}"))
                .remedy("start the node with --files FOLDER, or put the file into such a folder")
        })
    }

    pub(crate) fn context(&self) -> LoadContext<'static> {
        static NAMES: std::sync::OnceLock<Vec<&'static str>> = std::sync::OnceLock::new();
        LoadContext {
            pcpus_available: self.available.clone(),
            builtin_names: NAMES.get_or_init(stile_guest_images::names),
            policy: Some(self.scheduling.read().policy.clone()),
        }
    }

    /// Names of the vCPUs of running VMs: `VM/INDEX`.
    pub fn names(&self) -> HashMap<VcpuId, String> {
        let of_vm = |vm: Arc<NodeVm>| {
            let ids = vm.machine().map(|machine| machine.vm.vcpu_set().ids()).unwrap_or_default();
            ids.into_iter().enumerate().map(move |(index, id)| (id, format!("{}/{index}", vm.name())))
        };
        self.vms().into_iter().flat_map(of_vm).collect()
    }
}

fn taken_name(name: &str) -> Problem {
    Problem::new(Reason::Conflict, format!("there is a VM {name} already"))
        .remedy("choose another name, or delete that VM first")
}
