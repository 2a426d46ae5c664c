//! The site of a cell: its domain, its network, and the names of its vCPUs.

use super::context::Context;
use crate::error::CompareError;
use crate::plan::CellPlan;
use crate::window::audit::audit;
use crate::window::{Window, moment};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stile_host::CpuList;
use stile_machine::devices::net::{PortNumber, Switch};
use stile_machine::unikernel;
use stile_machine::unikernel::{Spec, Vm};
use stile_machine::vm::{Outcome, VcpuSet};
use stile_recording::{Named, Names, Recorder};
use stile_sched::Domain;

/// Time between two checks on guests: this part of the time that they have taken, within the bounds that follow. A
/// check takes a pCPU from a guest. Measured times have time stamps of their own.
const PAUSE_PART: u32 = 50;
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The site of one cell.
pub(crate) struct Site<'a> {
    pub(crate) context: &'a Context<'a>,
    pub(crate) planned: &'a CellPlan,
    /// The domain of the policy.
    pub(crate) label: &'a str,
    pub(crate) pcpus: CpuList,
    pub(crate) domain: Arc<dyn Domain>,
    pub(crate) recorder: Option<&'a Recorder>,
    /// Names of the VMs' vCPUs.
    pub(crate) names: Mutex<Vec<Named>>,
}

impl Site<'_> {
    /// Makes a VM of this cell that does not run yet. With a port of a switch, it has a network device.
    pub(crate) fn create(&self, spec: &Spec<'_>, port: Option<(&Arc<Switch>, PortNumber)>) -> Result<Vm, CompareError> {
        let (kvm, domain) = (self.context.kvm, Arc::clone(&self.domain));
        let vm = match port {
            Some((switch, port)) => unikernel::create_on_switch(kvm, spec, domain, switch, port),
            None => Vm::create(kvm, spec, domain),
        };
        let failed = |source| CompareError::Create { name: spec.name.to_owned(), label: self.label.to_owned(), source };
        let vm = vm.map_err(failed)?;
        self.name(&vm);
        Ok(vm)
    }

    /// Notes the names of a VM's vCPUs.
    pub(crate) fn name(&self, vm: &VcpuSet) {
        self.recorder.into_iter().for_each(|recorder| recorder.name(vm));
        self.names.lock().extend(Names::of_vm(vm));
    }

    /// Sleeps for this time. Returns false if the user ended the run meanwhile.
    pub(crate) fn sleep(&self, time: Duration) -> bool {
        self.context.sleep(time)
    }

    /// Waits until the workloads of all these VMs are set up. Returns false if the user ended the run meanwhile.
    pub(crate) fn all_ready(&self, vms: &[&Vm], limit: Duration) -> Result<bool, CompareError> {
        let is_ready = |vm: &Vm| vm.state().ready().is_some();
        let how_far = |_: &Vm| {
            let ready = vms.iter().filter(|vm| is_ready(vm)).count();
            format!("was not ready, {ready} of {} VMs were,", vms.len())
        };
        self.until(vms, limit, is_ready, how_far)
    }

    /// Waits until `is` holds for all of these VMs. Returns false if the user ended the run meanwhile. A VM that ends,
    /// or that takes longer than the limit, is an error, which says how far the VM was.
    pub(crate) fn until(
        &self,
        vms: &[&Vm],
        limit: Duration,
        is_reached: impl Fn(&Vm) -> bool,
        how_far: impl Fn(&Vm) -> String,
    ) -> Result<bool, CompareError> {
        let begun = Instant::now();
        let reached = self.look(|| {
            vms.iter().try_for_each(|vm| self.still_runs(vm))?;
            match vms.iter().find(|vm| !is_reached(vm)) {
                None => Ok(Some(())),
                Some(last) if begun.elapsed() > limit => Err(self.stuck(last, how_far(last), limit)),
                Some(_) => Ok(None),
            }
        })?;
        Ok(reached.is_some())
    }

    /// Calls `answer` again and again until it gives a result; `None` if the user ended the run meanwhile.
    pub(crate) fn look<T>(
        &self,
        mut look: impl FnMut() -> Result<Option<T>, CompareError>,
    ) -> Result<Option<T>, CompareError> {
        let begun = Instant::now();
        loop {
            if let Some(answer) = look()? {
                return Ok(Some(answer));
            }
            if !self.sleep((begun.elapsed() / PAUSE_PART).clamp(PAUSE_MIN, PAUSE_MAX)) {
                return Ok(None);
            }
        }
    }

    /// The error for a guest that missed its time limit, with how far it was.
    pub(crate) fn stuck(&self, vm: &Vm, how_far: String, limit: Duration) -> CompareError {
        CompareError::Stuck { name: vm.state().name().to_owned(), label: self.label.to_owned(), how_far, limit }
    }

    /// The error for a guest that cannot be measured.
    pub(crate) fn broken(&self, vm: &Vm, why: String) -> CompareError {
        CompareError::Broken { name: vm.state().name().to_owned(), label: self.label.to_owned(), why }
    }

    /// Call at the end of a window, while guests still run. Audits the accounts, and keeps the vCPUs that ran during
    /// the longest wait if it is the run's longest so far.
    pub(crate) fn audit(&self, window: &Window) -> Result<(), CompareError> {
        let longest = window.vcpus.iter().map(|vcpu| vcpu.waits.max()).max().unwrap_or_default();
        if let Some(trace) = self.domain.trace().filter(|_| self.context.is_worst(self.planned.policy, longest)) {
            let names = self.names.lock().clone().into();
            *self.context.moment.lock() = moment::longest(&trace, &self.pcpus, &names, longest);
        }
        let unsound = |source| CompareError::Unsound { label: self.label.to_owned(), source: Box::new(source) };
        audit(window, self.pcpus.len()).map_err(unsound)
    }

    /// Fails if a guest has ended, since it was not measured.
    pub(crate) fn still_runs(&self, vm: &Vm) -> Result<(), CompareError> {
        vm.state().outcome().map_or(Ok(()), |outcome| Err(self.ended(vm, outcome)))
    }

    /// The error for a guest that ended, and should not have.
    pub(crate) fn ended(&self, vm: &Vm, outcome: &Outcome) -> CompareError {
        CompareError::Ended {
            name: vm.state().name().to_owned(),
            label: self.label.to_owned(),
            outcome: outcome.clone(),
        }
    }
}
