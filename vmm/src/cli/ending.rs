//! Waits for the VMs of a run to end, prints how they ended, a line for each, and gives the program's exit code.

use super::failure::Failure;
use super::printer::Printer;
use std::time::{Duration, Instant};
use stile_machine::vm::console;
use stile_machine::vm::{Outcome, VirtualMachine};
use stile_node::Machine;

/// How long the vCPUs of VMs that were stopped may take to leave their pCPUs. A sound one takes milliseconds. One that
/// its host keeps in a system call may take for ever.
const PATIENCE: Duration = Duration::from_secs(5);

/// The VMs, which were stopped, do not end.
pub(super) struct Hanging;

/// Waits until all vCPUs of these stopped VMs are through, and all that their guests printed is written.
pub(super) fn wait(vms: &[Machine]) -> Result<(), Hanging> {
    let until = Instant::now() + PATIENCE;
    let mut outcome = Ok(());
    for vm in vms.iter().map(|vm| vm.vcpu_set()) {
        if vm.wait_for(until.saturating_duration_since(Instant::now())).is_none() {
            let name = vm.status().name();
            tracing::error!(
                remedy = "look for what keeps this process's threads: cat /proc/PID/task/*/wchan",
                "[{name}] does not end: its vCPUs have not left the host's kernel for {PATIENCE:?}"
            );
            outcome = Err(Hanging);
        }
    }
    console::settle();
    outcome
}

/// A VM that has ended.
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) outcome: Outcome,
    /// What it reported, by name.
    pub(super) results: Vec<(String, u64)>,
}

impl Ended {
    /// This VM, if it has ended.
    pub(super) fn of(vm: &Machine) -> Option<Self> {
        let outcome = vm.vcpu_set().wait_for(Duration::ZERO)?;
        Some(Self { name: vm.vcpu_set().status().name().to_owned(), outcome, results: vm.results() })
    }

    /// Prints how it ended.
    fn tell(&self, printer: &Printer) -> Result<(), Failure> {
        let Self { name, outcome, results } = self;
        results.iter().try_for_each(|(figure, value)| printer.line(format_args!("[{name}] {figure} = {value}")))?;
        match outcome.is_well() {
            true => printer.line(format_args!("[{name}] {outcome}"))?,
            false => tracing::error!("[{name}] {outcome}"),
        }
        Ok(())
    }
}

/// Prints how these VMs ended, of so many. If one failed, returns the error with which the program ends.
pub(super) fn tell(ended: &[Ended], of: usize, printer: &Printer) -> Result<(), Failure> {
    let told: Vec<_> = ended.iter().map(|vm| vm.tell(printer)).collect();
    let bad: Vec<&Outcome> = ended.iter().map(|vm| &vm.outcome).filter(|outcome| !outcome.is_well()).collect();
    let Some(first) = bad.first() else { return told.into_iter().collect() };
    let alike = bad.iter().all(|outcome| std::mem::discriminant(*outcome) == std::mem::discriminant(*first));
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
