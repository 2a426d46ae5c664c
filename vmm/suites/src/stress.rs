//! Stressors of stress-ng that sleep and wake each other, in Linux guests.

use super::descriptor::{Budget, Counted, Descriptor, Length, LinuxGuests, LinuxImage, PerKind, Vms};
use super::metric::Metric::{MinShare, Throughput};
use super::parameter::Parameter;

const STRESSOR: Parameter =
    Parameter { key: "stressor", range: 0..=2, default: Some(0), unit: "(0 is futex, 1 mutex, 2 switch)" };

pub(super) static SUITE: Descriptor = Descriptor {
    name: "stress",
    about: "Linux guests run a stressor of stress-ng each, one instance on each vCPU, whose processes wait for each other at a futex, \
            a mutex or a pipe.",
    unit: "bogo ops/s",
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
        parameters: &[STRESSOR],
        image: LinuxImage::Large,
    }),
    headline: &[Throughput, MinShare],
    plotted: &[Throughput, MinShare],
    context: &[],
    source: None,
};
