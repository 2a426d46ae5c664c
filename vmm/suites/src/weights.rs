//! All vCPUs compute, in VMs of different nice values.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Least, Length, Model, PerKind, Vms};
use super::metric::Metric::{Nice0Share, Nice5Share, Nice10Share, Throughput, WeightError};
use super::parts::{Role, Share};

pub(super) static SUITE: Descriptor = Descriptor {
    name: "weights",
    about: "All vCPUs compute, in VMs of nice 0, 5 and 10; shares are relative to the policy's weights.",
    unit: "iterations/s",
    counted: Counted::Vcpus,
    least: Some(Least { size: 2, why: "one of nice 0 and one of nice 5" }),
    setups: PerKind::NO_SETUPS,
    policies: PerKind::HOST_AND_RSDL,
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Rotations(10.0),
    builtin: Some(Builtin {
        image: "hog",
        sizes: PerKind { usual: &[2, 8, 16], quick: &[6], full: &[2, 8, 16] },
        vms: Vms::Nices(&[(0, Nice0Share), (5, Nice5Share), (10, Nice10Share)]),
        warm_ups: 1,
        ramps_down: false,
        parts: &[Share::all(Role::Computes)],
        tells_roles: false,
        waits: false,
        parameters: &[],
        model: Some(Model::Roles),
    }),
    linux: None,
    headline: &[Throughput, WeightError, Nice0Share, Nice5Share, Nice10Share],
    plotted: &[Throughput, Nice0Share, Nice5Share, Nice10Share],
    context: &[],
    source: None,
};
