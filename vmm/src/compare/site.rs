//! Where a cell is measured: its domain, and what else it finds there.

use super::audit::audit;
use super::moment;
use super::plan::CellPlan;
use super::runner::{CompareError, Context};
use super::window::Window;
use crate::host::CpuList;
use crate::net::{self, PortNumber, Switch};
use crate::recording::{Named, Names, Recorder};
use crate::vm::{Outcome, Spec, Vm};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stile_sched::Domain;

/// How often one who waits for a guest looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The place of one cell.
pub(super) struct Site<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) planned: &'a CellPlan,
    /// The policy's.
    pub(super) label: &'a str,
    pub(super) pcpus: CpuList,
    pub(super) domain: Arc<dyn Domain>,
    pub(super) recorder: Option<&'a Recorder>,
    /// Of the VMs' vCPUs.
    pub(super) names: Mutex<Vec<Named>>,
}

impl Site<'_> {
    /// A VM of this cell, not running yet; with a port of a switch, on its network.
    pub(super) fn create(&self, spec: &Spec<'_>, port: Option<(&Arc<Switch>, PortNumber)>) -> Result<Vm, CompareError> {
        let (kvm, domain) = (self.context.kvm, Arc::clone(&self.domain));
        let vm = match port {
            Some((switch, port)) => net::create_vm(kvm, spec, domain, switch, port),
            None => Vm::create(kvm, spec, domain),
        };
        let failed = |source| CompareError::Create { name: spec.name.to_owned(), label: self.label.to_owned(), source };
        let vm = vm.map_err(failed)?;
        self.recorder.into_iter().for_each(|recorder| recorder.name(&vm));
        self.names.lock().extend(Names::of_vm(&vm));
        Ok(vm)
    }

    /// Waits; false if the user ended the run meanwhile.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        self.context.sleep(time)
    }

    /// Waits until the workloads of all these are set up; false if the user ended the run meanwhile.
    pub(super) fn all_ready(&self, vms: &[&Vm], limit: Duration) -> Result<bool, CompareError> {
        let begun = Instant::now();
        while let Some(vm) = vms.iter().find(|vm| vm.state().ready().is_none()) {
            self.still_runs(vm)?;
            if begun.elapsed() > limit {
                return Err(self.stuck(vm, "was not ready".to_owned(), limit));
            }
            if !self.sleep(LOOK_EVERY) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A guest that was only so far after its time.
    pub(super) fn stuck(&self, vm: &Vm, how_far: String, limit: Duration) -> CompareError {
        CompareError::Stuck { name: vm.state().name().to_owned(), label: self.label.to_owned(), how_far, limit }
    }

    /// A guest that cannot be measured.
    pub(super) fn broken(&self, vm: &Vm, why: String) -> CompareError {
        CompareError::Broken { name: vm.state().name().to_owned(), label: self.label.to_owned(), why }
    }

    /// At the end of a window, while guests still run: sees to it that nothing is told from unsound accounts, and keeps
    /// who ran during its longest wait if that is the run's worst so far.
    pub(super) fn audit(&self, window: &Window) -> Result<(), CompareError> {
        let longest = window.vcpus.iter().map(|vcpu| vcpu.waits.max()).max().unwrap_or_default();
        if let Some(trace) = self.domain.trace().filter(|_| self.context.is_worst(self.planned.policy, longest)) {
            let names = self.names.lock().clone().into();
            *self.context.moment.lock() = moment::longest(&trace, &self.pcpus, &names, longest);
        }
        let unsound = |source| CompareError::Unsound { label: self.label.to_owned(), source };
        audit(window, self.pcpus.len()).map_err(unsound)
    }

    /// A guest that ended was not measured.
    pub(super) fn still_runs(&self, vm: &Vm) -> Result<(), CompareError> {
        vm.state().outcome().map_or(Ok(()), |outcome| Err(self.ended(vm, outcome)))
    }

    /// A guest that ended like this, and should not have.
    pub(super) fn ended(&self, vm: &Vm, outcome: &Outcome) -> CompareError {
        CompareError::Ended {
            name: vm.state().name().to_owned(),
            label: self.label.to_owned(),
            outcome: outcome.clone(),
        }
    }
}
