//! Changes of how a node schedules, while its VMs run: the policy and its parameters, the pCPUs, and each VM's nice
//! value, class and cap.
//!
//! A change is checked first, and nothing has changed if it fails. There is one change at a time. A change may have to
//! be confirmed: if nobody confirms it in time, or the watchdog objects meanwhile, what was before is put back, by the
//! same way. All changes are in a log.

use crate::bus::now;
use crate::keeper::Message;
use crate::log::Log;
use crate::node::Node;
use crate::scheduling::{Scheduling, Undo};
use crate::vm::{NodeVm, scheduling_of, with_scheduling};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stile_api::{Author, Change, ChangeState, Happened, Problem, Reason, SchedulingRequest, Settings};
use stile_config::{PolicyConfig, VmConfig};
use stile_host::CpuList;
use tracing::{info, warn};

/// When a change that could not be taken back is tried again.
const AGAIN: Duration = Duration::from_secs(5);

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

impl Node {
    /// Changes how the node schedules. The answer comes when the change holds.
    ///
    /// # Errors
    /// The change is not possible, or another one waits to be confirmed. Nothing has changed.
    pub fn change(&self, by: Author, wanted: Wanted, guarded: Guarded) -> Result<Change, Problem> {
        self.change_with(&mut self.log.lock(), by, wanted, guarded)
    }

    pub(crate) fn change_with(
        &self,
        log: &mut Log<Undo>,
        by: Author,
        wanted: Wanted,
        guarded: Guarded,
    ) -> Result<Change, Problem> {
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
        change.state = match guarded.confirm_within {
            Some(within) => ChangeState::Awaiting { until: now() + within.as_secs_f64() },
            None => ChangeState::Applied,
        };
        let change = log.enter(change, guarded.confirm_within.map(|_| Undo { before, vms: undo }));
        if let Some(within) = guarded.confirm_within {
            let take_back = Message::TakeBack { change: change.id, why: "it was not confirmed in time" };
            self.keeper().mail().send_later(take_back, within);
        }
        self.tell_of(&change);
        Ok(change)
    }

    /// Keeps the change that waits to be confirmed.
    pub fn confirm(&self, id: u64) -> Result<Change, Problem> {
        let mut log = self.log.lock();
        let change = log.settle(id, ChangeState::Applied)?;
        self.tell_of(&change);
        Ok(change)
    }

    /// Takes the change back that waits to be confirmed.
    pub fn revert(&self, id: u64) -> Result<Change, Problem> {
        self.take_back_with(&mut self.log.lock(), id, "it was taken back")
    }

    /// All changes that the log keeps, from the oldest on.
    pub fn changes(&self) -> Vec<Change> {
        self.log.lock().changes().cloned().collect()
    }

    /// Takes a change back if it still waits. Called by the keeper.
    pub(crate) fn take_back(&self, id: u64, why: &'static str) {
        self.see_taken_back(&mut self.log.lock(), id, why);
    }

    /// As above. If that fails, the change still waits, and one message tries it again.
    pub(crate) fn see_taken_back(&self, log: &mut Log<Undo>, id: u64, why: &'static str) {
        if log.awaiting() != Some(id) {
            return;
        }
        let Err(problem) = self.take_back_with(log, id, why) else { return };
        let now = Instant::now();
        if log.tries_again(now, now + AGAIN) {
            warn!("change {id} cannot be taken back, which is tried again in {AGAIN:?}: {problem}");
            self.keeper().mail().send_later(Message::TakeBack { change: id, why }, AGAIN);
        }
    }

    fn take_back_with(&self, log: &mut Log<Undo>, id: u64, why: &str) -> Result<Change, Problem> {
        let Undo { before, vms } = log.undo(id)?;
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
        let change = log.settle(id, ChangeState::Reverted { why: why.to_owned() })?;
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
}
