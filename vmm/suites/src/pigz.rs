//! Compression by many threads, in Linux guests.

use super::descriptor::{Budget, Counted, Descriptor, Length, LinuxGuests, LinuxImage, PerKind, Vms};
use super::metric::Metric::{RunTime, Throughput};
use super::parameter::Parameter;

const MEGABYTES: Parameter =
    Parameter { key: "mb", range: 1..=24, default: Some(24), unit: "MiB of text in each guest" };
const THREADS: Parameter = Parameter { key: "threads", range: 1..=64, default: Some(4), unit: "threads of each guest" };

pub(super) static SUITE: Descriptor = Descriptor {
    name: "pigz",
    about: "Linux guests compress a file of text each, with more threads than vCPUs that pass blocks to each other; the time runs from \
            the release of all until the last one is done.",
    unit: "MB/s",
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
        parameters: &[MEGABYTES, THREADS],
        image: LinuxImage::Usual,
    }),
    headline: &[Throughput, RunTime],
    plotted: &[Throughput, RunTime],
    context: &[],
    source: None,
};
