//! All vCPUs ring a doorbell that asks for nothing, as fast as they can.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Length, PerKind, Vms};
use super::metric::Metric::{Jain, Jitter, LatencyMax, LatencyP50, LatencyP99, Throughput};
use super::parts::{Role, Share};
use super::setup::Processors::{Smp, Up};
use super::setup::Setup;
use super::source::{Claims, Source};

const ALL: &[Setup] = &[Setup::On(Smp), Setup::On(Up), Setup::Bare(Smp), Setup::Bare(Up)];

pub(super) static SUITE: Descriptor = Descriptor {
    name: "entry",
    about: "All vCPUs ring a doorbell that asks for nothing, as fast as they can, on one pCPU (up) and on all (smp); latency \
            is from ringing to going on. Without a VM, threads do what the scheduler does meanwhile and nothing else; under \
            host they call the kernel.",
    unit: "entries/s",
    counted: Counted::Vcpus,
    least: None,
    setups: PerKind { usual: ALL, quick: &[Setup::On(Smp), Setup::Bare(Smp)], full: ALL },
    policies: PerKind::all(&["host", "freelist", "rsdl"]),
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: Some(Builtin {
        image: "doorbell",
        sizes: PerKind::all(&[2]),
        vms: Vms::One,
        warm_ups: 1,
        ramps_down: false,
        parts: &[Share::all(Role::Own)],
        tells_roles: false,
        waits: false,
        parameters: &[],
        model: None,
    }),
    linux: None,
    headline: &[Throughput, Jitter, LatencyP50, LatencyP99, LatencyMax, Jain],
    plotted: &[Throughput, Jitter, LatencyP99],
    context: &[],
    source: Some(Source {
        order: 5,
        citation: "Antti Kantee, commit message of the rump kernel's CPU scheduler, NetBSD",
        claims: Claims::Slots,
    }),
};
