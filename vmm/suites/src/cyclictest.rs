//! Timers of one Linux guest, beside others that compute.

use super::descriptor::{Budget, Counted, Descriptor, Length, LinuxGuests, LinuxImage, PerKind, Vms};
use super::metric::Metric::{LatencyMax, LatencyP50, LatencyP99, Throughput};

pub(super) static SUITE: Descriptor = Descriptor {
    name: "cyclictest",
    about: "Threads of one Linux guest sleep until a time and see how late they wake, while the other guests compute; latency \
            is how late.",
    unit: "wakes/s",
    counted: Counted::Vms,
    least: None,
    setups: PerKind::NO_SETUPS,
    policies: PerKind::HOST_AND_RSDL,
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: None,
    linux: Some(LinuxGuests {
        sizes: PerKind { usual: &[1, 2, 4], quick: &[2], full: &[1, 2, 4] },
        vms: Vms::PerSize { each: 1, besides: 0 },
        measures_boot: false,
        parameters: &[],
        image: LinuxImage::Usual,
    }),
    headline: &[Throughput, LatencyP50, LatencyP99, LatencyMax],
    plotted: &[LatencyP50, LatencyP99, LatencyMax],
    context: &[],
    source: None,
};
