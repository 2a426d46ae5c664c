//! All vCPUs compute.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Length, Model, PerKind, Vms};
use super::metric::Metric::{Jain, MinShare, Throughput};
use super::parts::{Role, Share};

pub(super) static SUITE: Descriptor = Descriptor {
    name: "hogs",
    about: "All vCPUs compute and none waits.",
    unit: "iterations/s",
    counted: Counted::Vcpus,
    least: None,
    setups: PerKind::NO_SETUPS,
    policies: PerKind::HOST_AND_RSDL,
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: Some(Builtin {
        image: "hog",
        sizes: PerKind { usual: &[2, 8, 16], quick: &[4, 8], full: &[2, 8, 16] },
        vms: Vms::One,
        warm_ups: 1,
        ramps_down: false,
        parts: &[Share::all(Role::Computes)],
        tells_roles: false,
        waits: false,
        parameters: &[],
        model: Some(Model::Roles),
    }),
    linux: None,
    headline: &[Throughput, Jain, MinShare],
    plotted: &[Throughput, MinShare],
    context: &[],
    source: None,
};
