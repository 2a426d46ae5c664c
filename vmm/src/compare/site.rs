//! Where a cell is measured: its domain, and what else it finds there.

use super::audit::audit;
use super::plan::CellPlan;
use super::runner::{CompareError, Context};
use super::window::Window;
use crate::host::CpuList;
use crate::net::{self, PortNumber, Switch};
use crate::recording::Recorder;
use crate::vm::{Outcome, Spec, Vm};
use std::sync::Arc;
use std::time::Duration;
use stile_sched::Domain;

/// The place of one cell.
pub(super) struct Site<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) planned: &'a CellPlan,
    /// The policy's.
    pub(super) label: &'a str,
    pub(super) pcpus: CpuList,
    pub(super) domain: Arc<dyn Domain>,
    pub(super) recorder: Option<&'a Recorder>,
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
        Ok(vm)
    }

    /// Waits; false if the user ended the run meanwhile.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        self.context.sleep(time)
    }

    /// Sees to it that nothing is told from unsound accounts.
    pub(super) fn audit(&self, window: &Window) -> Result<(), CompareError> {
        let unsound = |source| CompareError::Unsound { label: self.label.to_owned(), source };
        audit(window, self.pcpus.len()).map_err(unsound)
    }

    /// A guest that ended was not measured.
    pub(super) fn still_runs(&self, vm: &Vm) -> Result<(), CompareError> {
        vm.state().outcome().map_or(Ok(()), |outcome| Err(self.ended(vm, outcome)))
    }

    /// A guest that did not come to where it should be, and how far the cell was.
    pub(super) fn stuck(&self, vm: &Vm, progress: String) -> CompareError {
        CompareError::Stuck { name: vm.state().name().to_owned(), label: self.label.to_owned(), progress }
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
