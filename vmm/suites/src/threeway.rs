//! A third of the vCPUs each pass messages in pairs, contend for a lock, and compute.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Least, Length, Model, PerKind, Vms};
use super::metric::Metric::{
    HogThroughput, HogsCpuShare, JainCpu, LockersCpuShare, PairThroughput, PairsCpuShare, Throughput,
};
use super::parameter::{GAP_NS, HOLD_NS, SPINS, WORK_BEFORE_MESSAGE};
use super::parts::{Part, Role, Share, Take};

pub(super) static SUITE: Descriptor = Descriptor {
    name: "threeway",
    about: "A third of the vCPUs each play ping-pong, share a ticket lock, and compute; latency is the wait for the lock.",
    unit: "locks/s",
    counted: Counted::Vcpus,
    least: Some(Least { size: 4, why: "a pair, one at the lock and one that computes" }),
    setups: PerKind::NO_SETUPS,
    policies: PerKind::HOST_AND_RSDL,
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: Some(Builtin {
        image: "mix",
        sizes: PerKind { usual: &[6, 12, 24], quick: &[6, 12], full: &[6, 12, 24] },
        vms: Vms::One,
        warm_ups: 1,
        ramps_down: false,
        parts: &[
            Share { part: Part::Pair, role: Role::Talks, take: Take::ThirdInPairs },
            Share { part: Part::Main, role: Role::Locks, take: Take::Half },
            Share { part: Part::Hog, role: Role::Computes, take: Take::Rest },
        ],
        tells_roles: true,
        waits: true,
        parameters: &[HOLD_NS, GAP_NS, WORK_BEFORE_MESSAGE, SPINS],
        model: Some(Model::Roles),
    }),
    linux: None,
    headline: &[Throughput, PairThroughput, HogThroughput, LockersCpuShare, PairsCpuShare, HogsCpuShare, JainCpu],
    plotted: &[Throughput, PairThroughput, LockersCpuShare, PairsCpuShare, HogsCpuShare],
    // The hogs lose the CPU time that lockers get back. The shares show that.
    context: &[HogThroughput],
    source: None,
};
