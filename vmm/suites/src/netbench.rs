//! Clients and servers that exchange file-server traffic over TCP.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Length, Model, PerKind, Vms};
use super::metric::Metric::{ClientErrors, Jain, LatencyP99, StartLatencyMax, Throughput};
use super::parts::{Role, Share};
use super::setup::Processors::{Smp, Up};
use super::setup::Setup;
use super::source::{Claims, Source};

pub(super) static SUITE: Descriptor = Descriptor {
    name: "netbench",
    about: "Client VMs send file-server requests to servers over TCP; latency is the time to an answer.",
    unit: "Mbit/s",
    counted: Counted::Clients,
    least: None,
    setups: PerKind {
        usual: &[Setup::Usual],
        quick: &[Setup::Usual],
        full: &[Setup::On(Up), Setup::On(Smp), Setup::Affinity],
    },
    policies: PerKind { usual: &["host", "rsdl"], quick: &["host", "rsdl"], full: &["host", "o1", "rsdl"] },
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: Some(Builtin {
        image: "netbench-client",
        sizes: PerKind {
            usual: &[4, 16, 32, 48],
            quick: &[4, 48],
            full: &[4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48],
        },
        // A server for each client, and the VMs that are started during the window.
        vms: Vms::PerSize { each: 2, besides: 5 },
        warm_ups: 1,
        ramps_down: true,
        parts: &[Share::all(Role::Own)],
        tells_roles: false,
        waits: false,
        parameters: &[],
        model: Some(Model::FileServer),
    }),
    linux: None,
    headline: &[Throughput, LatencyP99, Jain, ClientErrors, StartLatencyMax],
    plotted: &[Throughput, LatencyP99, StartLatencyMax],
    context: &[],
    source: Some(Source {
        order: 4,
        citation: "Andrew Theurer, report to a kernel list on the O(1) scheduler (version J7, Linux 2.4.17), 2002",
        claims: Claims::FileServer,
    }),
};
