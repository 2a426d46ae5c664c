//! Half of the vCPUs contend for a lock, the other half compute.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Least, Length, Model, PerKind, Vms};
use super::metric::Metric::{HogThroughput, HogsCpuShare, LatencyP99, LockersCpuShare, Throughput};
use super::parameter::{GAP_NS, HOLD_NS, SPINS};
use super::parts::{Part, Role, Share, Take};

pub(super) static SUITE: Descriptor = Descriptor {
    name: "mixed",
    about: "Half of the vCPUs share a ticket lock, half compute; latency is the wait for the lock.",
    unit: "locks/s",
    counted: Counted::Vcpus,
    least: Some(Least { size: 2, why: "one at the lock and one that computes" }),
    setups: PerKind::NO_SETUPS,
    policies: PerKind::HOST_AND_RSDL,
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: Some(Builtin {
        image: "mix",
        sizes: PerKind { usual: &[4, 8, 16], quick: &[4, 8], full: &[4, 8, 16] },
        vms: Vms::One,
        warm_ups: 1,
        ramps_down: false,
        parts: &[
            Share { part: Part::Main, role: Role::Locks, take: Take::Half },
            Share { part: Part::Hog, role: Role::Computes, take: Take::Rest },
        ],
        tells_roles: false,
        waits: true,
        parameters: &[HOLD_NS, GAP_NS, SPINS],
        model: Some(Model::Roles),
    }),
    linux: None,
    headline: &[Throughput, LatencyP99, HogThroughput, LockersCpuShare, HogsCpuShare],
    plotted: &[Throughput, LatencyP99, LockersCpuShare, HogsCpuShare],
    // The hogs lose the CPU time that lockers get back. The shares show that.
    context: &[HogThroughput],
    source: None,
};
