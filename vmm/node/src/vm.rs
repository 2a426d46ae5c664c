//! A VM of a node, from its creation to its deletion, over any number of starts.
//!
//! ```text
//!            start             pause
//!  stopped --------> running --------> paused
//!     ^                 | ^---- resume ---'|
//!     '---- ends -------'                  |
//!     '---- ends --------------------------'
//! ```
//!
//! `doing` is held by whoever starts, pauses, resumes, stops or deletes it, which may take long. `life` is held for
//! moments, to read and to change what it is.

use crate::console::Scrollback;
use crate::gone::Gone;
use crate::make::Machine;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stile_api::{Figures, ResultFigure, VcpuFigures, VmDetails, VmFigures, VmInfo, VmKind, VmState};
use stile_config::{CapPeriod, VmConfig};
use stile_machine::vm::Outcome;
use stile_metrics::VmReading;
use stile_sched::attributes::{Attributes, GroupId};

/// A VM of a node.
pub struct NodeVm {
    name: String,
    kind: VmKind,
    /// What it prints.
    pub console: Scrollback,
    /// Held by whoever changes its state.
    pub doing: Mutex<()>,
    life: Mutex<Life>,
    /// It has ended.
    ended: Condvar,
}

struct Life {
    config: VmConfig,
    /// The group of its vCPUs under a cap, over all its starts.
    group: GroupId,
    machine: Option<Arc<Machine>>,
    /// Of the last machine.
    gone: Option<Gone>,
    starts: u64,
    /// The figures of its last start, once that has ended.
    last: Option<VmReading>,
    /// The counters of its last start, as they were last read.
    shown: Option<VmReading>,
    results: Vec<(String, u64)>,
    outcome: Option<Outcome>,
    deleted: bool,
}

/// A reading of a VM, with the number of the start that it is of.
pub struct Read {
    /// The start.
    pub start: u64,
    /// The reading.
    pub reading: VmReading,
}

impl NodeVm {
    /// A VM that was not started.
    pub fn new(name: &str, config: VmConfig) -> Self {
        let kind = if config.kernel.is_some() { VmKind::Linux } else { VmKind::Unikernel };
        let life = Life {
            config,
            group: GroupId::unique(),
            machine: None,
            gone: None,
            starts: 0,
            last: None,
            shown: None,
            results: Vec::new(),
            outcome: None,
            deleted: false,
        };
        Self {
            name: name.to_owned(),
            kind,
            console: Scrollback::default(),
            doing: Mutex::default(),
            life: Mutex::new(life),
            ended: Condvar::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it was made of, with live changes.
    pub fn config(&self) -> VmConfig {
        self.life().config.clone()
    }

    /// Takes a change of its configuration.
    pub fn set_config(&self, config: VmConfig) {
        self.life().config = config;
    }

    /// How its vCPUs are scheduled with this configuration.
    pub fn attributes(&self, config: &VmConfig) -> Attributes {
        let group = stile_assembly::group_with(config, self.life().group);
        Attributes { group, ..stile_assembly::attributes(config) }
    }

    /// Its machine, while it has one.
    pub fn machine(&self) -> Option<Arc<Machine>> {
        self.life().machine.clone()
    }

    /// What it does.
    pub fn state(&self) -> VmState {
        self.life().state()
    }

    /// It was deleted, and does not come back.
    pub fn is_deleted(&self) -> bool {
        self.life().deleted
    }

    /// Marks it as deleted. Its console ends.
    pub fn delete(&self) {
        self.life().deleted = true;
        self.console.ends();
    }

    /// It has this machine from now on. Returns the number of this start.
    pub fn begins(&self, machine: Arc<Machine>) -> u64 {
        let mut life = self.life();
        life.starts += 1;
        life.gone = Some(machine.gone());
        life.machine = Some(machine);
        (life.last, life.shown, life.outcome, life.results) = (None, None, None, Vec::new());
        life.starts
    }

    /// Its machine has ended like this, with these last figures. `tell` is called before anyone can see the end, since
    /// whoever waits for it may end the node next.
    pub fn ends(&self, outcome: Outcome, last: VmReading, results: Vec<(String, u64)>, tell: impl FnOnce()) {
        let mut life = self.life();
        (life.last, life.outcome, life.results) = (Some(last), Some(outcome), results);
        life.machine = None;
        tell();
        drop(life);
        self.ended.notify_all();
    }

    /// Waits until it has no machine. False: it still has one after this time.
    pub fn wait_for_end(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let mut life = self.life();
        while life.machine.is_some() {
            if self.ended.wait_until(&mut life, until).timed_out() {
                return life.machine.is_none();
            }
        }
        true
    }

    /// Waits until its last machine has given back what it held of the host's. False: it has not after this time.
    pub fn wait_until_gone(&self, limit: Duration) -> bool {
        let gone = self.life().gone.clone();
        gone.is_none_or(|gone| gone.wait(limit))
    }

    /// How it ended the last time.
    pub fn outcome(&self) -> Option<Outcome> {
        self.life().outcome.clone()
    }

    /// What its guest has reported, by name, since it was started the last time.
    pub fn results(&self) -> Vec<(String, u64)> {
        self.life().results()
    }

    /// The VM in a list.
    pub fn info(&self) -> VmInfo {
        self.info_of(&self.life())
    }

    fn info_of(&self, life: &Life) -> VmInfo {
        let config = &life.config;
        VmInfo {
            name: self.name.clone(),
            state: life.state(),
            kind: self.kind,
            vcpus: config.vcpus,
            memory_bytes: config.memory().bytes(),
            nice: config.nice,
            class: config.class,
            cap: config.cap,
            starts: life.starts,
            outcome: life.outcome.as_ref().map(ToString::to_string),
            ended_well: life.outcome.as_ref().map(Outcome::is_well),
        }
    }

    /// The VM in full, with this reading of its present start.
    pub fn details(&self, now: Option<Read>) -> VmDetails {
        let life = self.life();
        let reading = now.map(|read| read.reading).or_else(|| life.last.clone());
        let (figures, vcpu_figures) = match reading.as_ref().map(Figures::of_vm) {
            Some((figures, vcpus)) => (Some(figures), vcpus),
            None => (None, Vec::new()),
        };
        let results = life.results().into_iter().map(|(name, value)| ResultFigure { name, value }).collect();
        VmDetails { info: self.info_of(&life), config: life.config.clone(), figures, vcpu_figures, results }
    }

    /// Its figures in a frame, from this reading.
    pub fn figures(&self, reading: &VmReading) -> VmFigures {
        let life = self.life();
        let (figures, vcpus): (Figures, Vec<VcpuFigures>) = Figures::of_vm(reading);
        let class = serde_json::to_value(life.config.class).unwrap_or_default();
        VmFigures {
            name: self.name.clone(),
            state: life.state(),
            nice: life.config.nice,
            class: class.as_str().unwrap_or_default().to_owned(),
            cap: life.config.cap.map(|cap| cap.cpus()),
            figures,
            vcpus,
        }
    }

    /// The figures of its present start, or of its last one.
    pub fn read(&self, by_policy: bool) -> Option<Read> {
        self.look(by_policy).map(|(read, _)| read)
    }

    /// These figures as counters: none is less than one that was read before, until the VM starts again.
    pub fn count(&self, by_policy: bool) -> Option<VmReading> {
        self.look(by_policy).map(|(_, counters)| counters)
    }

    fn look(&self, by_policy: bool) -> Option<(Read, VmReading)> {
        let (machine, start, last, shown) = {
            let life = self.life();
            (life.machine.clone(), life.starts, life.last.clone(), life.shown.clone())
        };
        let reading = match machine {
            Some(machine) => VmReading::take(&*machine.vm, by_policy, shown.as_ref()),
            None => last?,
        };
        let mut counters = reading.clone();
        let mut life = self.life();
        if life.starts == start {
            life.shown.iter().for_each(|shown| counters.raise_to(shown));
            life.shown = Some(counters.clone());
        }
        Some((Read { start, reading }, counters))
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock()
    }
}

impl Life {
    fn results(&self) -> Vec<(String, u64)> {
        self.machine.as_ref().map_or_else(|| self.results.clone(), |machine| machine.vm.results())
    }

    fn state(&self) -> VmState {
        match &self.machine {
            None => VmState::Stopped,
            Some(machine) if machine.vm.vcpu_set().status().is_paused() => VmState::Paused,
            Some(_) => VmState::Running,
        }
    }
}

/// The configuration with these changes of its scheduling.
pub(crate) fn with_scheduling(config: &VmConfig, request: &stile_api::SchedulingRequest) -> VmConfig {
    let mut config = config.clone();
    request.nice.into_iter().for_each(|nice| config.nice = nice);
    request.class.into_iter().for_each(|class| config.class = class);
    match request.cap {
        Some(stile_api::CapSetting::Cpus(cap)) => config.cap = Some(cap),
        Some(stile_api::CapSetting::None(_)) => {
            config.cap = None;
            config.cap_period = CapPeriod::default();
        }
        None => {}
    }
    request.cap_period.into_iter().for_each(|period| config.cap_period = period);
    config
}

/// What undoes such a change of this configuration.
pub(crate) fn scheduling_of(config: &VmConfig) -> stile_api::SchedulingRequest {
    let cap = config.cap.map_or(stile_api::CapSetting::None(stile_api::NoCap::None), stile_api::CapSetting::Cpus);
    stile_api::SchedulingRequest {
        nice: Some(config.nice),
        class: Some(config.class),
        cap: Some(cap),
        cap_period: config.cap.map(|_| config.cap_period),
    }
}
