//! One VM of many vCPUs against as many VMs of one.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Least, Length, PerKind, Vms};
use super::metric::Metric::{Jain, LatencyP99, SplitGain, Throughput};
use super::parameter::{GAP_NS, HOLD_NS, SPINS};
use super::parts::{Role, Share};
use super::setup::Setup;

pub(super) static SUITE: Descriptor = Descriptor {
    name: "partition",
    about: "The same work by one VM of N vCPUs and by N VMs of one vCPU; with locks, all vCPUs of a VM share one lock.",
    unit: "operations/s",
    counted: Counted::Vcpus,
    least: Some(Least { size: 2, why: "to be one VM or two" }),
    setups: PerKind::all(&[Setup::Locks(false), Setup::Locks(true)]),
    policies: PerKind::HOST_AND_RSDL,
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: Some(Builtin {
        image: "ticket",
        sizes: PerKind { usual: &[4, 8, 16], quick: &[8], full: &[4, 8, 16] },
        vms: Vms::PerSize { each: 1, besides: 1 },
        // One for each half of the window.
        warm_ups: 2,
        ramps_down: false,
        parts: &[Share::all(Role::Own)],
        tells_roles: false,
        waits: true,
        parameters: &[HOLD_NS, GAP_NS, SPINS],
        model: None,
    }),
    linux: None,
    headline: &[Throughput, SplitGain, LatencyP99, Jain],
    plotted: &[Throughput, SplitGain],
    context: &[],
    source: None,
};
