//! Clients of tbench in one Linux guest, their servers in another.

use super::descriptor::{Budget, Counted, Descriptor, Length, LinuxGuests, LinuxImage, PerKind, Vms};
use super::metric::Metric::{LatencyMax, Throughput};

pub(super) static SUITE: Descriptor = Descriptor {
    name: "tbench",
    about: "Clients of tbench in one Linux guest send a file server's traffic to their servers in another; latency is the \
            longest time to an answer.",
    unit: "MB/s",
    counted: Counted::Clients,
    least: None,
    setups: PerKind::NO_SETUPS,
    policies: PerKind::HOST_AND_RSDL,
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: None,
    linux: Some(LinuxGuests {
        sizes: PerKind { usual: &[1, 2, 4], quick: &[2], full: &[1, 2, 4] },
        // vCPUs of the clients' guest, and of the servers'.
        vms: Vms::PerSize { each: 0, besides: 2 },
        measures_boot: false,
        parameters: &[],
        image: LinuxImage::Usual,
    }),
    headline: &[Throughput, LatencyMax],
    plotted: &[Throughput, LatencyMax],
    context: &[],
    source: None,
};
