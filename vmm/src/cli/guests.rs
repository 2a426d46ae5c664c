//! The VMs of a configuration that runs from start to end: their images are read and checked before anything starts,
//! and then made into VMs.

use super::failure::Failure;

use kvm_ioctls::Kvm;
use std::path::Path;
use std::sync::Arc;
use stile_api::{Problem, Reason};
use stile_config::{Config, VmConfig, place_of};
use stile_machine::devices::virtio::Tell;
use stile_machine::linux::LinuxState;
use stile_machine::vm::console::Sink;
use stile_node::{Guest, Machine, Maker, Networks, Unfit, linux_unsuited};
use stile_sched::Domain;
use stile_sched::attributes::Attributes;
use tracing::warn;

/// The images that the VMs of a configuration boot, in their order.
pub(super) struct Guests(Vec<Guest>);

impl Guests {
    /// Opens all files, and finds mistakes in them and in memory sizes, without starting anything. `file` is the
    /// configuration's path.
    pub(super) fn open(config: &Config, file: &Path) -> Result<Self, Failure> {
        let open = |(index, vm): (usize, &VmConfig)| {
            Guest::open(vm).map_err(|Unfit { key, wrong, remedy }| {
                let place = place_of(file, index, key).map(|place| format!("{place}: ")).unwrap_or_default();
                let message = format!("{place}VM {}: {wrong}", vm.name.as_str());
                Failure::Input(match remedy {
                    Some(remedy) => miette::miette!(help = remedy, "{message}"),
                    None => miette::miette!("{message}"),
                })
            })
        };
        config.vms.iter().enumerate().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Refuses Linux where it is known not to run, unless the user wants to try.
    pub(super) fn suit_host(&self, try_anyway: bool) -> Result<(), Failure> {
        let has_linux = self.0.iter().any(|guest| matches!(guest, Guest::Linux(_)));
        if has_linux { linux_runs_here(try_anyway) } else { Ok(()) }
    }
}

/// Text that says where Linux guests run, and how to try elsewhere.
const ELSEWHERE: &str = "use a host with VMX or SVM, or run it in scripts/hardware-lane, which emulates one; \
                         --try-linux tries it here all the same";

/// Refuses Linux guests where they are known not to run, unless the user wants to try.
pub(super) fn linux_runs_here(try_anyway: bool) -> Result<(), Failure> {
    match linux_unsuited() {
        Some(why) if try_anyway => warn!("{why}"),
        Some(why) => return Err(Failure::Unsuited(miette::miette!(help = ELSEWHERE, "{why}"))),
        None => {}
    }
    Ok(())
}

/// Where the output of VMs goes.
pub(super) struct Sinks {
    /// Output of guests.
    pub(super) console: Sink,
    /// Messages about devices that are turned off.
    pub(super) tell: Tell,
}

/// Makes the VMs of a configuration, in order. They do not run yet.
pub(super) fn create(
    kvm: &Kvm,
    config: &Config,
    guests: &Guests,
    domain: &Arc<dyn Domain>,
    sinks: &Sinks,
) -> Result<Vec<Machine>, Failure> {
    let policy = stile_assembly::carried_out(&config.policy);
    let networks = Arc::<Networks>::default();
    let (halt_poll, tell) = (config.halt_poll(), &sinks.tell);
    let maker = Maker { kvm, domain, policy: &policy, halt_poll, networks: &networks, tell };
    let mut machines = Vec::new();
    for (vm, guest) in config.vms.iter().zip(&guests.0) {
        for name in vm.instance_names() {
            machines.push(maker.make(&name, vm, guest, attributes(vm), sinks.console.clone()).map_err(not_made)?);
        }
    }
    Ok(machines)
}

/// The state of those that are Linux guests.
pub(super) fn linux(machines: &[Machine]) -> Vec<Arc<LinuxState>> {
    machines.iter().filter_map(|machine| machine.linux.clone()).collect()
}

fn attributes(vm: &VmConfig) -> Attributes {
    Attributes { group: stile_assembly::group(vm), ..stile_assembly::attributes(vm) }
}

/// The failure that a VM cannot be made: by the user's mistake, or by what the host refuses.
fn not_made(problem: Problem) -> Failure {
    let report = match &problem.remedy {
        Some(remedy) => miette::miette!(help = remedy.clone(), "{problem}"),
        None => miette::miette!("{problem}"),
    };
    match problem.reason {
        Reason::Unsupported => Failure::Run(report),
        _ => Failure::Input(report),
    }
}
