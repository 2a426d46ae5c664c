//! Changes of how a node schedules, while its VMs run: the policy and its parameters, the pCPUs, and each VM's nice
//! value, class and cap.
//!
//! A change makes another domain, which goes on with all vCPUs (`stile_sched::domain::handover`). It is checked before,
//! and nothing has changed if the host refuses a thread. There is one change at a time. A change may have to be
//! confirmed: if nobody confirms it in time, or the watchdog objects meanwhile, what was before is put back, by the
//! same way. All changes are in a log.

use crate::affinity;
use crate::bus::now;
use crate::keeper::Message;
use crate::node::Node;
use crate::vm::{NodeVm, scheduling_of, with_scheduling};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use stile_api::{
    Author, Change, ChangeState, Happened, PcpusView, PolicyRequest, PolicyView, Problem, Reason, SchedulingRequest,
    Settings,
};
use stile_assembly::watch::is_watched;
use stile_config::{Config, Mechanism, OnStarvation, PolicyConfig, VmConfig};
use stile_host::CpuList;
use stile_sched::attributes::Attributes;
use stile_sched::domain::handover::Handover;
use stile_sched::domain::watchdog::{Cause, Rules, Starvation, Watchdog};
use stile_sched::{Domain, VcpuId};
use tracing::{info, warn};

/// Changes that the log keeps.
const KEPT: usize = 1000;
/// When a change that could not be taken back is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// How a node schedules.
#[derive(Debug, Clone)]
pub(crate) struct Scheduling {
    /// As it was asked for.
    pub(crate) policy: PolicyConfig,
    /// With the mechanism that carries it out.
    pub(crate) carried: PolicyConfig,
    pub(crate) pcpus: CpuList,
    /// The domain can hold caps.
    pub(crate) caps: bool,
}

/// A change that is asked for. What is absent stays.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The policy.
    pub policy: Option<PolicyConfig>,
    /// The pCPUs.
    pub pcpus: Option<CpuList>,
    /// VMs, by name.
    pub vms: Vec<(String, SchedulingRequest)>,
}

/// How a change is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Guarded {
    /// It is checked and not made.
    pub dry_run: bool,
    /// It goes back by itself unless it is confirmed within this time.
    pub confirm_within: Option<Duration>,
}

/// The log of changes, and the change that waits to be confirmed.
#[derive(Default)]
pub(crate) struct Log {
    changes: VecDeque<Change>,
    last: u64,
    awaiting: Option<Awaiting>,
}

#[derive(Clone)]
struct Awaiting {
    change: u64,
    before: Scheduling,
    vms: Vec<(Arc<NodeVm>, SchedulingRequest)>,
    /// When it is tried again to take it back, once that has failed.
    again: Option<Instant>,
}

impl Log {
    /// The change that waits to be confirmed.
    pub(crate) fn awaiting(&self) -> Option<u64> {
        self.awaiting.as_ref().map(|awaiting| awaiting.change)
    }

    fn enter(&mut self, change: Change) {
        self.changes.push_back(change);
        if self.changes.len() > KEPT {
            self.changes.pop_front();
        }
    }

    fn set_state(&mut self, id: u64, state: ChangeState) -> Option<Change> {
        let change = self.changes.iter_mut().find(|change| change.id == id)?;
        change.state = state;
        Some(change.clone())
    }
}

impl Scheduling {
    /// That of a configuration.
    pub(crate) fn of(config: &Config) -> Self {
        let carried = stile_assembly::carried_out(&config.policy);
        let (policy, pcpus) = (config.policy.clone(), config.host.pcpus.clone());
        Self { policy, carried, pcpus, caps: stile_assembly::has_caps(config) }
    }

    /// Its domain, without vCPUs.
    pub(crate) fn domain(&self) -> Result<Arc<dyn Handover>, Problem> {
        stile_assembly::successor(&self.carried, &self.pcpus, self.caps)
            .map_err(|e| Problem::of(Reason::Unsupported, "nothing was changed", &e))
    }

    /// The pCPUs as numbers.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        self.pcpus.iter().map(|cpu| cpu as usize).collect()
    }

    /// What carries vCPUs.
    pub(crate) fn mechanism(&self) -> &'static str {
        match self.carried.mechanism {
            _ if self.policy.algorithm.is_host() => "host",
            Mechanism::Leases => "leases",
            Mechanism::Executors | Mechanism::Auto => "executors",
        }
    }
}

impl Node {
    /// The policy.
    pub fn policy(&self) -> PolicyView {
        let policy = self.scheduling.read().policy.clone();
        PolicyView { policy: policy.to_string(), keys: policy }
    }

    /// The pCPUs.
    pub fn pcpus(&self) -> PcpusView {
        let pcpus = self.scheduling.read().pcpus.iter().collect();
        PcpusView { pcpus, available: self.available().iter().collect() }
    }

    /// The policy that a request asks for.
    pub fn wanted_policy(&self, request: &PolicyRequest) -> Result<PolicyConfig, Problem> {
        match (&request.policy, &request.keys) {
            (Some(policy), None) => policy.parse().map_err(|e| Problem::of(Reason::Invalid, "policy", &e)),
            (None, Some(keys)) => {
                let base = self.scheduling.read().policy.clone();
                let context = self.context();
                stile_config::policy_with(&base, keys, &context).map_err(|e| Problem::of_config("policy", &e))
            }
            _ => Err(Problem::new(Reason::Invalid, "one of `policy` and `keys` is expected").remedy(
                "`policy` is as --policy takes it, such as \"rsdl:rr_interval=3ms\"; `keys` are those of [policy]",
            )),
        }
    }

    /// The pCPUs of these numbers.
    pub fn wanted_pcpus(&self, pcpus: &[u32]) -> Result<CpuList, Problem> {
        let available = self.available();
        let accepted = format!("accepted are one or more of {available}");
        if pcpus.is_empty() {
            return Err(Problem::new(Reason::Invalid, "pcpus: a node needs one at least").remedy(accepted));
        }
        match pcpus.iter().find(|cpu| !available.contains(**cpu)) {
            Some(cpu) => {
                Err(Problem::new(Reason::Conflict, format!("pcpus: this process may not use a CPU {cpu}"))
                    .remedy(accepted))
            }
            None => Ok(pcpus.iter().copied().collect()),
        }
    }

    /// Changes how the node schedules. The answer comes when the change holds.
    ///
    /// # Errors
    /// The change is not possible, or another one waits to be confirmed. Nothing has changed.
    pub fn change(&self, by: Author, wanted: Wanted, guarded: Guarded) -> Result<Change, Problem> {
        self.change_with(&mut self.log.lock(), by, wanted, guarded)
    }

    fn change_with(&self, log: &mut Log, by: Author, wanted: Wanted, guarded: Guarded) -> Result<Change, Problem> {
        if let Some(awaiting) = log.awaiting() {
            let waits = format!("change {awaiting} waits to be confirmed, and there is one change at a time");
            return Err(Problem::new(Reason::Conflict, waits)
                .remedy(format!("`stile confirm {awaiting}` keeps it, `stile revert {awaiting}` takes it back")));
        }
        let before = self.scheduling.read().clone();
        let vms = self.wanted_vms(&wanted.vms)?;
        let next = self.next(&before, &wanted, &vms)?;
        let undo: Vec<_> = vms.iter().map(|(vm, _)| (Arc::clone(vm), scheduling_of(&vm.config()))).collect();
        let after: Vec<_> = vms.iter().map(|(vm, config)| (Arc::clone(vm), scheduling_of(config))).collect();
        let settings = |scheduling: &Scheduling, vms: &[(Arc<NodeVm>, SchedulingRequest)]| Settings {
            policy: wanted.policy.as_ref().map(|_| scheduling.policy.to_string()),
            pcpus: wanted.pcpus.as_ref().map(|_| scheduling.pcpus.to_string()),
            vms: vms.iter().map(|(vm, request)| (vm.name().to_owned(), request.clone())).collect(),
        };
        let mut change = Change {
            id: 0,
            at: now(),
            by,
            before: settings(&before, &undo),
            after: settings(&next, &after),
            vcpus: 0,
            seconds: 0.0,
            state: ChangeState::Checked,
        };
        if guarded.dry_run {
            return Ok(change);
        }
        (change.vcpus, change.seconds) = self.go_over(next, &vms)?;
        log.last += 1;
        change.id = log.last;
        change.state = match guarded.confirm_within {
            Some(within) => {
                log.awaiting = Some(Awaiting { change: change.id, before, vms: undo, again: None });
                let take_back = Message::TakeBack { change: change.id, why: "it was not confirmed in time" };
                self.keeper().mail().send_later(take_back, within);
                ChangeState::Awaiting { until: now() + within.as_secs_f64() }
            }
            None => ChangeState::Applied,
        };
        log.enter(change.clone());
        self.tell_of(&change);
        Ok(change)
    }

    /// Keeps the change that waits to be confirmed.
    pub fn confirm(&self, id: u64) -> Result<Change, Problem> {
        let mut log = self.log.lock();
        if log.awaiting() != Some(id) {
            return Err(not_awaiting(&log, id));
        }
        log.awaiting = None;
        let change = log.set_state(id, ChangeState::Applied).ok_or_else(|| not_awaiting(&log, id))?;
        self.tell_of(&change);
        Ok(change)
    }

    /// Takes the change back that waits to be confirmed.
    pub fn revert(&self, id: u64) -> Result<Change, Problem> {
        self.take_back_with(&mut self.log.lock(), id, "it was taken back")
    }

    /// All changes that the log keeps, from the oldest on.
    pub fn changes(&self) -> Vec<Change> {
        self.log.lock().changes.iter().cloned().collect()
    }

    /// Takes a change back if it still waits. Called by the keeper.
    pub(crate) fn take_back(&self, id: u64, why: &'static str) {
        self.see_taken_back(&mut self.log.lock(), id, why);
    }

    /// As above. If that fails, the change still waits, and one message tries it again.
    fn see_taken_back(&self, log: &mut Log, id: u64, why: &'static str) {
        if log.awaiting() != Some(id) {
            return;
        }
        let Err(problem) = self.take_back_with(log, id, why) else { return };
        let now = Instant::now();
        if let Some(awaiting) = log.awaiting.as_mut().filter(|awaiting| awaiting.again.is_none_or(|again| again <= now))
        {
            warn!("change {id} cannot be taken back, which is tried again in {AGAIN:?}: {problem}");
            awaiting.again = Some(now + AGAIN);
            self.keeper().mail().send_later(Message::TakeBack { change: id, why }, AGAIN);
        }
    }

    fn take_back_with(&self, log: &mut Log, id: u64, why: &str) -> Result<Change, Problem> {
        let Some(Awaiting { before, vms, .. }) = log.awaiting.clone().filter(|awaiting| awaiting.change == id) else {
            return Err(not_awaiting(log, id));
        };
        // A VM that has gone since needs nothing. Another one may have its name.
        let vms: Vec<_> = vms
            .into_iter()
            .filter(|(vm, _)| !vm.is_deleted())
            .map(|(vm, request)| {
                let config = with_scheduling(&vm.config(), &request);
                (vm, config)
            })
            .collect();
        // VMs may have come that the former domain could not hold.
        let wanted = Wanted { policy: Some(before.policy.clone()), pcpus: Some(before.pcpus.clone()), vms: Vec::new() };
        let next = self.next(&before, &wanted, &vms)?;
        self.go_over(next, &vms)?;
        log.awaiting = None;
        let state = ChangeState::Reverted { why: why.to_owned() };
        let change = log.set_state(id, state).ok_or_else(|| not_awaiting(log, id))?;
        self.tell_of(&change);
        Ok(change)
    }

    fn tell_of(&self, change: &Change) {
        info!("{change}");
        self.bus().tell(Happened::Changed { change: change.clone() });
    }

    /// The VMs that are to change, with their new configurations.
    fn wanted_vms(&self, wanted: &[(String, SchedulingRequest)]) -> Result<Vec<(Arc<NodeVm>, VmConfig)>, Problem> {
        const KEYS: [&str; 4] = ["nice", "class", "cap", "cap_period"];
        let one = |(name, request): &(String, SchedulingRequest)| {
            let vm = self.vm(name)?;
            let config = with_scheduling(&vm.config(), request);
            let table = serde_json::to_value(&config).ok().and_then(|value| value.as_object().cloned());
            if let Err(error) = stile_config::vm_of(&table.unwrap_or_default(), &self.context()) {
                let mut problem = Problem::of_config("vm[0]", &error);
                // Its image may have gone since it was created. A cap rests under a policy that keeps none.
                let rests = |key: &str| key == "cap" && request.cap.is_none() && request.cap_period.is_none();
                problem.findings.retain(|finding| KEYS.contains(&finding.key.as_str()) && !rests(&finding.key));
                if !problem.findings.is_empty() {
                    let message = format!("VM {name}: {}", problem.message);
                    return Err(Problem { message, ..problem });
                }
            }
            Ok((vm, config))
        };
        wanted.iter().map(one).collect()
    }

    /// How the node schedules after this change. Caps once held stay possible.
    fn next(
        &self,
        before: &Scheduling,
        wanted: &Wanted,
        vms: &[(Arc<NodeVm>, VmConfig)],
    ) -> Result<Scheduling, Problem> {
        let policy = wanted.policy.clone().unwrap_or_else(|| before.policy.clone());
        let carried = self.carried(&policy)?;
        let pcpus = wanted.pcpus.clone().unwrap_or_else(|| before.pcpus.clone());
        let caps = self.vms().iter().any(|vm| vm.config().cap.is_some());
        let caps = before.caps || caps || vms.iter().any(|(_, config)| config.cap.is_some());
        Ok(Scheduling { policy, carried, pcpus, caps })
    }

    /// A policy with the mechanism that carries it out here, beside the VMs that there are.
    fn carried(&self, policy: &PolicyConfig) -> Result<PolicyConfig, Problem> {
        if policy.algorithm.is_in_kernel() {
            return Err(Problem::new(
                Reason::Conflict,
                format!("policy: a node cannot load `{policy}` into the kernel"),
            )
            .remedy("take another policy; `run` without --socket and `compare` have this one"));
        }
        let waits_inside = |vm: &Arc<NodeVm>| vm.machine().is_some_and(|machine| machine.waits_inside);
        let Some(vm) = self.vms().into_iter().find(waits_inside) else {
            return Ok(stile_assembly::carried_out(policy));
        };
        match policy.mechanism {
            _ if policy.algorithm.is_host() => Ok(stile_assembly::carried_out(policy)),
            Mechanism::Auto | Mechanism::Leases => Ok(PolicyConfig { mechanism: Mechanism::Leases, ..policy.clone() }),
            Mechanism::Executors => {
                let halts = format!(
                    "mechanism: executors cannot carry VM {}, whose vCPUs halt inside the host's kernel",
                    vm.name()
                );
                Err(Problem::new(Reason::Conflict, halts)
                    .remedy("take `leases` or `auto`, or start that VM anew with interrupts = \"user\""))
            }
        }
    }

    /// Has a domain that can hold caps.
    pub(crate) fn have_caps(&self) -> Result<(), Problem> {
        let _log = self.log.lock();
        let before = self.scheduling.read().clone();
        if before.caps {
            return Ok(());
        }
        self.go_over(Scheduling { caps: true, ..before }, &[]).map(drop)
    }

    /// Another domain goes on with all vCPUs. Returns how many there are, and how long that took (unit: s).
    fn go_over(&self, next: Scheduling, vms: &[(Arc<NodeVm>, VmConfig)]) -> Result<(usize, f64), Problem> {
        let mut scheduling = self.scheduling.write();
        // A VM may have started since it was checked.
        let next = Scheduling { carried: self.carried(&next.policy)?, ..next };
        let mut attributes: HashMap<VcpuId, Attributes> = HashMap::new();
        for (vm, config) in vms {
            let ids = vm.machine().map(|machine| machine.vm.vcpu_set().ids()).unwrap_or_default();
            let of_vm = vm.attributes(config);
            if of_vm == vm.attributes(&vm.config()) {
                continue;
            }
            attributes.extend(ids.into_iter().map(|id| (id, of_vm)));
        }
        let moves = next.policy != scheduling.policy
            || next.carried != scheduling.carried
            || next.pcpus != scheduling.pcpus
            || next.caps != scheduling.caps
            || !attributes.is_empty();
        let done = if moves { self.hands_over(&scheduling, &next, &attributes)? } else { (0, 0.0) };
        vms.iter().for_each(|(vm, config)| vm.set_config(config.clone()));
        let before = std::mem::replace(&mut *scheduling, next.clone());
        drop(scheduling);
        if moves {
            let carriers: HashSet<i32> = self.domain.threads().iter().map(|thread| thread.0).collect();
            affinity::follow(&before.pcpus, &next.pcpus, &carriers);
            self.go_on_recording();
            self.watch();
        }
        Ok(done)
    }

    fn hands_over(
        &self,
        before: &Scheduling,
        next: &Scheduling,
        attributes: &HashMap<VcpuId, Attributes>,
    ) -> Result<(usize, f64), Problem> {
        let domain = next.domain()?;
        // It would look at a domain that ends.
        drop(self.watchdog.lock().take());
        let began = Instant::now();
        let change = |id: VcpuId, own: &mut Attributes| {
            attributes.get(&id).into_iter().for_each(|new| *own = *new);
        };
        match self.domain.hand_over(domain, &next.numbers(), change) {
            Ok(vcpus) => {
                self.handovers.fetch_add(1, Ordering::Relaxed);
                Ok((vcpus, began.elapsed().as_secs_f64()))
            }
            Err(e) => {
                self.watch_under(before);
                Err(Problem::of(Reason::Unsupported, "nothing was changed", &e)
                    .remedy("raise the limit on threads, or on timers (ulimit -i), and try again"))
            }
        }
    }

    /// Has the watchdog watch under the present policy.
    pub(crate) fn watch(&self) {
        let scheduling = self.scheduling.read().clone();
        self.watch_under(&scheduling);
    }

    fn watch_under(&self, scheduling: &Scheduling) {
        let mut watchdog = self.watchdog.lock();
        drop(watchdog.take());
        if !is_watched(&scheduling.policy) {
            return;
        }
        let (policy, slots) = (scheduling.policy.clone(), scheduling.pcpus.len());
        let bound = Box::new(move |me, others: &[_]| stile_assembly::starvation_bound(&policy, me, others, slots));
        let (mail, handovers) = (self.keeper().mail(), self.handovers.load(Ordering::Relaxed));
        let tell = Box::new(move |starvation: Starvation| {
            mail.send(Message::Starved { handovers, starvation: Box::new(starvation) });
            ControlFlow::Continue(())
        });
        match Watchdog::start(Arc::clone(&self.as_domain), Rules { bound, tell }) {
            Ok(started) => *watchdog = Some(started),
            Err(e) => warn!("no watchdog watches for starvation: {e}"),
        }
    }

    /// The watchdog has found a vCPU that waits too long, in the domain after so many handovers. Called by the keeper.
    pub(crate) fn starved(&self, handovers: u64, starvation: &Starvation) {
        let names = self.names();
        let name = |vcpu: VcpuId| names.get(&vcpu).cloned().unwrap_or_else(|| vcpu.to_string());
        let text = starvation.text(&name);
        let text = text.trim_end();
        warn!("{text}");
        self.bus().tell(Happened::Starved { text: text.to_owned() });
        if starvation.cause == Cause::Host {
            return;
        }
        let mut log = self.log.lock();
        // The domain in which the vCPU waited may have ended. No change since then has starved it.
        if self.handovers.load(Ordering::Relaxed) != handovers {
            return;
        }
        if let Some(change) = log.awaiting() {
            let why = "the watchdog objected: a vCPU waited longer than the policy promises";
            return self.see_taken_back(&mut log, change, why);
        }
        let policy = self.scheduling.read().policy.clone();
        if policy.on_starvation != OnStarvation::Fallback || policy.algorithm.is_host() {
            return;
        }
        let host = "host".parse().expect("a policy of the host is known");
        let wanted = Wanted { policy: Some(host), ..Wanted::default() };
        match self.change_with(&mut log, Author { uid: None, pid: None }, wanted, Guarded::default()) {
            Ok(change) => warn!("the host's scheduler decides from now on; all {} vCPUs go on there", change.vcpus),
            Err(problem) => warn!("the host's scheduler cannot take over: {problem}"),
        }
    }
}

fn not_awaiting(log: &Log, id: u64) -> Problem {
    let known = log.changes.iter().any(|change| change.id == id);
    match known {
        true => Problem::new(Reason::Conflict, format!("change {id} does not wait to be confirmed")),
        false => Problem::new(Reason::NotFound, format!("there is no change {id}")),
    }
    .remedy("`stile changes` lists the changes")
}
