//! What is done to a node's VMs: they are started, paused, typed at, stopped and deleted, and all end with the node.

use crate::keeper::Message;
use crate::make::{Machine, Maker};
use crate::node::Node;
use crate::power;
use crate::scheduling::Scheduling;
use crate::vm::NodeVm;
use parking_lot::{MutexGuard, RwLockReadGuard};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stile_api::{Happened, Problem, Reason, StopMode, VmInfo, VmState};
use stile_machine::vm::console::{self, Sink};
use stile_metrics::VmReading;
use tracing::error;

/// How long a vCPU may take to leave its guest.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a VM that has lost its vCPUs may take to give its memory back.
const LAST: Duration = Duration::from_secs(10);

impl Node {
    /// Starts a VM that is stopped.
    pub fn start(&self, name: &str) -> Result<VmInfo, Problem> {
        let vm = self.vm(name)?;
        let _doing = self.doing(&vm)?;
        self.must_be(&vm, &[VmState::Stopped], "start")?;
        // While the node ends, it may hold the VM's last machine.
        drop(self.may_start(name)?);
        if !vm.wait_until_gone(LAST) {
            let held = format!("VM {name} has ended, and the host's kernel has not freed its memory for {LAST:?}");
            return Err(Problem::new(Reason::TimedOut, held).remedy("start it again later"));
        }
        let config = vm.config();
        self.may_use_files(name, &config)?;
        let guest = self.open(name, &config)?;
        if config.cap.is_some() {
            self.have_caps()?;
        }
        let (machine, ends) = {
            let scheduling = self.scheduling.read();
            let maker = Maker {
                kvm: &self.kvm,
                domain: &self.as_domain,
                policy: &scheduling.carried,
                halt_poll: self.halt_poll(&scheduling),
                networks: &self.networks,
                tell: &self.tell,
            };
            let kept = vm.console.sink(name);
            let sink = match &self.options.echo {
                Some(echo) => Sink::Both(Box::new((kept, echo.clone()))),
                None => kept,
            };
            // They may have been changed since; from here on they stay.
            let attributes = vm.attributes(&vm.config());
            let machine = Arc::new(maker.make(name, &config, &guest, attributes, sink)?);
            if machine.waits_inside && scheduling.mechanism() == "executors" {
                return Err(Problem::new(
                    Reason::Conflict,
                    format!("VM {name}: interrupts: its vCPUs halt inside the host's kernel, where executors cannot carry them"),
                )
                .remedy("set interrupts = \"user\", or the policy's mechanism to `leases`"));
            }
            let ends = self.may_start(name)?;
            vm.begins(Arc::clone(&machine));
            (machine, ends)
        };
        self.recording.lock().iter().for_each(|recorder| recorder.name(machine.vm.vcpu_set()));
        let (mail, told) = (self.keeper.mail(), vm.name().to_owned());
        machine.vm.vcpu_set().status().on_end(move || mail.send(Message::Ended(told.clone())));
        self.bus.tell(Happened::Started { vm: name.to_owned() });
        machine.vm.vcpu_set().start();
        drop(ends);
        Ok(vm.info())
    }

    /// Refuses a start if the node ends. The end of the node waits until the guard is dropped.
    fn may_start(&self, name: &str) -> Result<RwLockReadGuard<'_, bool>, Problem> {
        let ends = self.ends.read();
        match *ends {
            true => Err(Problem::new(Reason::Conflict, format!("VM {name} cannot start: the node ends"))),
            false => Ok(ends),
        }
    }

    fn halt_poll(&self, scheduling: &Scheduling) -> Option<Duration> {
        // More vCPUs than pCPUs are the rule on a node, and may come at any time.
        self.halt_poll.duration().or((!scheduling.policy.algorithm.is_host()).then_some(Duration::ZERO))
    }

    /// Pauses a VM that runs. When this returns, none of its vCPUs is in guest code.
    pub fn pause(&self, name: &str) -> Result<VmInfo, Problem> {
        let vm = self.vm(name)?;
        let _doing = self.doing(&vm)?;
        let machine = self.must_be(&vm, &[VmState::Running], "pause")?;
        if let Some(machine) = machine {
            let paused = machine.vm.vcpu_set().status().pause(PATIENCE);
            paused.map_err(|e| Problem::of(Reason::TimedOut, format_args!("VM {name} was not paused"), &e))?;
            self.bus.tell(Happened::Paused { vm: name.to_owned() });
        }
        Ok(vm.info())
    }

    /// Lets a paused VM go on.
    pub fn resume(&self, name: &str) -> Result<VmInfo, Problem> {
        let vm = self.vm(name)?;
        let _doing = self.doing(&vm)?;
        if let Some(machine) = self.must_be(&vm, &[VmState::Paused], "resume")? {
            machine.vm.vcpu_set().status().resume();
            self.bus.tell(Happened::Resumed { vm: name.to_owned() });
        }
        Ok(vm.info())
    }

    /// Stops a VM that runs or is paused, and waits for its end. With [`StopMode::Soft`] a Linux guest has so long to
    /// switch itself off; a hard stop meanwhile ends it at once.
    pub fn stop(&self, name: &str, mode: StopMode, grace: Duration) -> Result<VmInfo, Problem> {
        let vm = self.vm(name)?;
        let is_told = mode == StopMode::Hard && tell_to_end(&vm);
        let _doing = self.doing(&vm)?;
        let states: &[VmState] = match is_told {
            true => &[VmState::Running, VmState::Paused, VmState::Stopped],
            false => &[VmState::Running, VmState::Paused],
        };
        match self.must_be(&vm, states, "stop")? {
            Some(machine) => self.stop_machine(&vm, machine, mode, grace)?,
            None => drop(vm.wait_until_gone(PATIENCE)),
        }
        Ok(vm.info())
    }

    fn stop_machine(
        &self,
        vm: &Arc<NodeVm>,
        machine: Arc<Machine>,
        mode: StopMode,
        grace: Duration,
    ) -> Result<(), Problem> {
        if mode == StopMode::Soft {
            power::switch_off(&[(Arc::clone(vm), Arc::clone(&machine))], grace);
        }
        machine.vm.vcpu_set().stop();
        drop(machine);
        match vm.wait_for_end(PATIENCE + LAST) {
            // Its files are for others now. A host's kernel that takes longer than this holds nobody up.
            true => {
                vm.wait_until_gone(PATIENCE);
                Ok(())
            }
            false => Err(Problem::new(
                Reason::TimedOut,
                format!("VM {} was told to end, and its vCPUs have not left the host's kernel", vm.name()),
            )
            .remedy("look for what keeps the node's threads: cat /proc/PID/task/*/wchan")),
        }
    }

    /// Deletes a VM that is stopped. With `force` it is stopped first, at once.
    pub fn delete(&self, name: &str, force: bool) -> Result<(), Problem> {
        let vm = self.vm(name)?;
        if force {
            tell_to_end(&vm);
        }
        let _doing = self.doing(&vm)?;
        let states: &[VmState] =
            if force { &[VmState::Stopped, VmState::Running, VmState::Paused] } else { &[VmState::Stopped] };
        match self.must_be(&vm, states, "delete")? {
            Some(machine) => self.stop_machine(&vm, machine, StopMode::Hard, Duration::ZERO)?,
            None => drop(vm.wait_until_gone(PATIENCE)),
        }
        vm.delete();
        self.vms.write().remove(name);
        self.bus.tell(Happened::Deleted { vm: name.to_owned() });
        Ok(())
    }

    /// Waits until no other request changes the VM's state, for 15 s at most: a soft stop may take hours, and as many
    /// requests as there are threads would hold up those to other VMs.
    fn doing<'vm>(&self, vm: &'vm NodeVm) -> Result<MutexGuard<'vm, ()>, Problem> {
        vm.doing.try_lock_for(PATIENCE + LAST).ok_or_else(|| {
            let busy =
                format!("VM {} is still being started, stopped, paused or resumed by another request", vm.name());
            Problem::new(Reason::Conflict, busy).remedy("try again later; `stile stop --hard` ends a VM at once")
        })
    }

    /// Types this text at a Linux guest's serial port. Waits for the guest to take it, but not for long.
    pub fn type_at(&self, name: &str, keys: &[u8]) -> Result<(), Problem> {
        let vm = self.vm(name)?;
        let machine = vm.machine().ok_or_else(|| not_now(&vm, "be typed at"))?;
        let Some(linux) = &machine.linux else {
            let none = format!("VM {name} is a unikernel and takes no input");
            return Err(Problem::new(Reason::Conflict, none));
        };
        let until = Instant::now() + Duration::from_secs(2);
        let typed = linux.serial().receive(keys, || !linux.status().has_ended() && Instant::now() < until);
        if typed == keys.len() {
            return Ok(());
        }
        let (reason, why) = match linux.status().has_ended() {
            true => (Reason::Conflict, "it has ended"),
            false => (Reason::TimedOut, "it does not read its serial port"),
        };
        Err(Problem::new(reason, format!("VM {name} was typed {typed} of {} bytes: {why}", keys.len()))
            .remedy("type only the rest when you try again"))
    }

    /// Its machine, if it is in one of these states, and has one. With `doing` of the VM held.
    fn must_be(&self, vm: &NodeVm, states: &[VmState], what: &str) -> Result<Option<Arc<Machine>>, Problem> {
        if vm.is_deleted() {
            return Err(Problem::new(Reason::NotFound, format!("VM {} was deleted", vm.name())));
        }
        let machine = vm.machine();
        // A VM that is about to end is stopped in a moment.
        if machine.as_ref().is_some_and(|machine| machine.vm.vcpu_set().status().has_ended()) {
            vm.wait_for_end(PATIENCE + LAST);
        }
        match states.contains(&vm.state()) {
            true => Ok(vm.machine()),
            false => Err(not_now(vm, what)),
        }
    }

    /// A VM has ended: its last figures are kept, and its memory is freed. Called by the keeper.
    pub(crate) fn bury(&self, name: &str) {
        let Ok(vm) = self.vm(name) else { return };
        let Some(machine) = vm.machine() else { return };
        if !machine.vm.vcpu_set().status().has_ended() {
            return;
        }
        let Some(outcome) = machine.vm.vcpu_set().wait_for(PATIENCE) else {
            error!("[{name}] does not end: its vCPUs have not left the host's kernel for {PATIENCE:?}");
            self.keeper.mail().send_later(Message::Ended(name.to_owned()), PATIENCE);
            return;
        };
        let last = VmReading::take(&*machine.vm, self.as_domain.has_policy(), None);
        let results = machine.vm.results();
        let (well, told) = (outcome.is_well(), outcome.to_string());
        let tell = || self.bus.tell(Happened::Ended { vm: name.to_owned(), outcome: told, well });
        vm.ends(outcome, last, results, tell);
        self.keeper.free(machine);
    }

    /// Stops all VMs, and refuses to start any. Linux guests have the time `grace` to switch themselves off. Returns
    /// the names of the VMs that have not ended.
    pub fn stop_all(&self, grace: Duration) -> Vec<String> {
        *self.ends.write() = true;
        let running: Vec<(Arc<NodeVm>, Arc<Machine>)> =
            self.vms().into_iter().filter_map(|vm| vm.machine().map(|machine| (vm, machine))).collect();
        power::switch_off(&running, grace);
        running.iter().for_each(|(_, machine)| machine.vm.vcpu_set().stop());
        let until = Instant::now() + PATIENCE + LAST;
        let hang = |(vm, machine): (Arc<NodeVm>, Arc<Machine>)| {
            drop(machine);
            let left = || until.saturating_duration_since(Instant::now());
            let has_ended = vm.wait_for_end(left());
            // The process frees all else at its end, but not the paths of sockets.
            let _ = has_ended && vm.wait_until_gone(left());
            (!has_ended).then(|| vm.name().to_owned())
        };
        let hanging = running.into_iter().filter_map(hang).collect();
        console::settle();
        hanging
    }
}

/// Ends a VM, without waiting for a request that changes its state. False: it does not run.
fn tell_to_end(vm: &NodeVm) -> bool {
    vm.machine().inspect(|machine| machine.vm.vcpu_set().stop()).is_some()
}

fn not_now(vm: &NodeVm, what: &str) -> Problem {
    let state = vm.state().name();
    Problem::new(Reason::Conflict, format!("VM {} is {state}, and cannot {what}", vm.name()))
}
