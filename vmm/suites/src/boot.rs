//! VMs are made, run until they are ready, and end.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Length, LinuxGuests, LinuxImage, PerKind, Vms};
use super::metric::Metric::{
    LatencyMax, LatencyP50, LatencyP99, MemoryPerVm, MonitorPerVm, StartLatencyMax, StartP50, StartP99, Throughput,
};
use super::parts::{Role, Share};
use super::setup::{Setup, VmShape};

const SMALL: Setup = Setup::Each(VmShape { vcpus: 1, mib: 8 });
const ALL: &[Setup] = &[SMALL, Setup::Each(VmShape { vcpus: 4, mib: 16 }), Setup::Each(VmShape { vcpus: 1, mib: 256 })];

pub(super) static SUITE: Descriptor = Descriptor {
    name: "boot",
    about: "VMs are started at once; start is the time to the first doorbell, latency that until all vCPUs run and the \
            workload is set up. With Linux guests, latency is the time to the first report of the first process.",
    unit: "VMs/s",
    counted: Counted::Vms,
    least: None,
    setups: PerKind { usual: ALL, quick: &[SMALL], full: ALL },
    policies: PerKind::HOST_AND_RSDL,
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: Some(Builtin {
        image: "idle",
        sizes: PerKind { usual: &[1, 10, 100], quick: &[1, 100], full: &[1, 10, 100] },
        vms: Vms::PerSize { each: 1, besides: 0 },
        warm_ups: 0,
        ramps_down: false,
        parts: &[Share::all(Role::Own)],
        tells_roles: false,
        waits: false,
        parameters: &[],
        model: None,
    }),
    linux: Some(LinuxGuests {
        sizes: PerKind { usual: &[1, 4, 16], quick: &[1], full: &[1, 4, 16] },
        vms: Vms::PerSize { each: 1, besides: 0 },
        measures_boot: true,
        parameters: &[],
        image: LinuxImage::Usual,
    }),
    headline: &[
        Throughput,
        StartP50,
        StartP99,
        StartLatencyMax,
        LatencyP50,
        LatencyP99,
        LatencyMax,
        MemoryPerVm,
        MonitorPerVm,
    ],
    plotted: &[Throughput, StartP99, LatencyP99, MemoryPerVm],
    context: &[],
    source: None,
};
