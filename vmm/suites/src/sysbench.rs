//! Threads that take locks and yield, in Linux guests.

use super::descriptor::{Budget, Counted, Descriptor, Length, LinuxGuests, LinuxImage, PerKind, Vms};
use super::metric::Metric::{LatencyMax, MinShare, Throughput};
use super::parameter::Parameter;

const THREADS: Parameter = Parameter { key: "threads", range: 1..=64, default: Some(8), unit: "threads of each guest" };
const LOCKS: Parameter = Parameter { key: "locks", range: 1..=64, default: Some(4), unit: "mutexes of each guest" };

pub(super) static SUITE: Descriptor = Descriptor {
    name: "sysbench",
    about: "Linux guests run the test \"threads\" of sysbench each: threads take one of a few mutexes, yield and release it, a thousand \
            times for an event; latency is the time of an event.",
    unit: "events/s",
    counted: Counted::Vms,
    least: None,
    setups: PerKind::NO_SETUPS,
    policies: PerKind::HOST_AND_RSDL,
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: None,
    linux: Some(LinuxGuests {
        sizes: PerKind { usual: &[2, 4], quick: &[2], full: &[1, 2, 4] },
        vms: Vms::PerSize { each: 1, besides: 0 },
        measures_boot: false,
        parameters: &[THREADS, LOCKS],
        image: LinuxImage::Large,
    }),
    headline: &[Throughput, LatencyMax, MinShare],
    plotted: &[Throughput, LatencyMax],
    context: &[],
    source: None,
};
