//! Pairs of vCPUs pass a message to and fro.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Least, Length, Model, PerKind, Vms};
use super::metric::Metric::{Jain, LatencyMax, LatencyP99, Throughput};
use super::parameter::{SPINS, WORK_BEFORE_MESSAGE};
use super::parts::{Part, Role, Share, Take};

pub(super) static SUITE: Descriptor = Descriptor {
    name: "pingpong",
    about: "Pairs of vCPUs pass a message to and fro; latency is the wait for the message.",
    unit: "messages/s",
    counted: Counted::Vcpus,
    least: Some(Least { size: 2, why: "a pair" }),
    setups: PerKind::NO_SETUPS,
    policies: PerKind::HOST_AND_RSDL,
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: Some(Builtin {
        image: "pingpong",
        sizes: PerKind { usual: &[4, 8, 16], quick: &[4, 8], full: &[4, 8, 16] },
        vms: Vms::One,
        warm_ups: 1,
        ramps_down: false,
        parts: &[
            Share { part: Part::Main, role: Role::Talks, take: Take::Pairs },
            Share { part: Part::Odd, role: Role::Idles, take: Take::Rest },
        ],
        tells_roles: false,
        waits: true,
        parameters: &[WORK_BEFORE_MESSAGE, SPINS],
        model: Some(Model::Roles),
    }),
    linux: None,
    headline: &[Throughput, LatencyP99, LatencyMax, Jain],
    plotted: &[Throughput, LatencyP99, LatencyMax],
    context: &[],
    source: None,
};
