//! All vCPUs contend for one ticket lock.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Length, Model, PerKind, Vms};
use super::metric::Metric::{Jain, LatencyP99, Throughput};
use super::parameter::{GAP_NS, HOLD_NS, SPINS};
use super::parts::{Role, Share};

pub(super) static SUITE: Descriptor = Descriptor {
    name: "ticket",
    about: "All vCPUs take one ticket lock in turn; latency is the wait for the lock.",
    unit: "locks/s",
    counted: Counted::Vcpus,
    least: None,
    setups: PerKind::NO_SETUPS,
    policies: PerKind::HOST_AND_RSDL,
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: Some(Builtin {
        image: "ticket",
        sizes: PerKind { usual: &[4, 8, 16], quick: &[4, 8], full: &[4, 8, 16] },
        vms: Vms::One,
        warm_ups: 1,
        ramps_down: false,
        parts: &[Share::all(Role::Locks)],
        tells_roles: false,
        waits: true,
        parameters: &[HOLD_NS, GAP_NS, SPINS],
        model: Some(Model::Roles),
    }),
    linux: None,
    headline: &[Throughput, LatencyP99, Jain],
    plotted: &[Throughput, LatencyP99],
    context: &[],
    source: None,
};
