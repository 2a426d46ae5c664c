//! Prints how the VMs of a run ended, a line for each, and gives the program's exit code.

use super::failure::Failure;
use super::output;
use stile_machine::vm::{Outcome, VirtualMachine};

/// Prints how each VM ended. If one failed, returns the error with which the program ends.
pub(super) fn tell(vms: &[Box<dyn VirtualMachine>]) -> Result<(), Failure> {
    let mut told = Ok(());
    let mut tell_one = |vm: &dyn VirtualMachine| {
        let (outcome, this) = tell_one(vm);
        told = std::mem::replace(&mut told, Ok(())).and(this);
        outcome
    };
    let bad: Vec<Outcome> = vms.iter().map(|vm| tell_one(&**vm)).filter(|outcome| !outcome.is_well()).collect();
    let (Some(first), of) = (bad.first(), vms.len()) else { return told };
    let alike = bad.iter().all(|outcome| std::mem::discriminant(outcome) == std::mem::discriminant(first));
    Err(match first {
        Outcome::Rebooted if alike => {
            Failure::Rebooted(miette::miette!("{} of {of} VMs asked for a reboot, and are not started anew", bad.len()))
        }
        Outcome::Panicked if alike => {
            Failure::Panicked(miette::miette!("the kernels of {} of {of} VMs panicked", bad.len()))
        }
        _ => Failure::Run(miette::miette!("{} of {of} VMs ended badly", bad.len())),
    })
}

/// Prints how a VM ended. Returns the outcome, and whether it could be printed.
fn tell_one(vm: &dyn VirtualMachine) -> (Outcome, Result<(), Failure>) {
    let (outcome, name) = (vm.vcpu_set().wait(), vm.vcpu_set().status().name());
    let mut results = vm.results().into_iter();
    let mut told = results.try_for_each(|(figure, value)| output::line(format_args!("[{name}] {figure} = {value}")));
    match outcome.is_well() {
        true => told = told.and_then(|()| output::line(format_args!("[{name}] {outcome}"))),
        false => tracing::error!("[{name}] {outcome}"),
    }
    (outcome, told)
}
