//! Half of the vCPUs wake every 5 ms for a short job, the other half compute.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Least, Length, Model, PerKind, Vms};
use super::metric::Metric::{HogThroughput, LatencyP99, Throughput};
use super::parameter::{Parameter, WORK_US};
use super::parts::{Part, Role, Share, Take};

pub(super) static SUITE: Descriptor = Descriptor {
    name: "probe",
    about: "Half of the vCPUs wake every 5 ms for a short job, half compute; latency is from wake to done.",
    unit: "requests/s",
    counted: Counted::Vcpus,
    least: Some(Least { size: 2, why: "one that wakes and one that computes" }),
    setups: PerKind::NO_SETUPS,
    policies: PerKind::HOST_AND_RSDL,
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: Some(Builtin {
        image: "probe",
        sizes: PerKind { usual: &[4, 8, 16], quick: &[4, 8], full: &[4, 8, 16] },
        vms: Vms::One,
        warm_ups: 1,
        ramps_down: false,
        parts: &[
            Share { part: Part::Main, role: Role::Wakes, take: Take::LargerHalf },
            Share { part: Part::Hog, role: Role::Computes, take: Take::Rest },
        ],
        tells_roles: false,
        waits: false,
        parameters: &[
            Parameter {
                key: "period_us",
                range: 100..=1_000_000,
                default: Some(5_000),
                unit: "us from one wake to the next",
            },
            Parameter { key: "work_us", range: WORK_US, default: Some(200), unit: "us of work after each wake" },
        ],
        model: Some(Model::Roles),
    }),
    linux: None,
    headline: &[Throughput, LatencyP99, HogThroughput],
    plotted: &[Throughput, LatencyP99, HogThroughput],
    context: &[],
    source: None,
};
