//! Half of the vCPUs stop at moments that may cheat the scheduler, beside others that only compute.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Least, Length, PerKind, Vms};
use super::metric::Metric::{HogThroughput, Jain, ThievesCpuShare, Throughput};
use super::parameter::Parameter;
use super::parts::{Part, Role, Share, Take};

pub(super) static SUITE: Descriptor = Descriptor {
    name: "theft",
    about: "Half of the vCPUs try to get more than their share: they sleep across ticks, sleep before their quota ends, \
            sleep after each burst, or yield after each burst. The others compute. The work is the thieves'.",
    unit: "iterations/s",
    counted: Counted::Vcpus,
    least: Some(Least { size: 2, why: "one that steals and one that computes" }),
    setups: PerKind::NO_SETUPS,
    policies: PerKind {
        usual: &["host", "freelist", "o1", "goodness", "credit2", "rsdl"],
        quick: &["host", "o1", "rsdl"],
        full: &["host", "freelist", "o1", "goodness", "credit2", "rsdl"],
    },
    rounds: PerKind::ROUNDS,
    budget: Budget::USUAL,
    length: Length::Fitting,
    builtin: Some(Builtin {
        image: "theft",
        sizes: PerKind { usual: &[8], quick: &[8], full: &[4, 8, 16] },
        vms: Vms::Beside {
            image: "hog",
            key: "strategy",
            variants: &["tick", "slice", "boost", "yields"],
            share: ThievesCpuShare,
        },
        // One cell for each strategy.
        warm_ups: 4,
        ramps_down: false,
        parts: &[
            Share { part: Part::Main, role: Role::Own, take: Take::Half },
            Share { part: Part::Hog, role: Role::Computes, take: Take::Rest },
        ],
        tells_roles: false,
        waits: false,
        parameters: &[
            Parameter { key: "tick_us", range: SPAN_US, default: Some(10_000), unit: "us between the ticks to dodge" },
            Parameter {
                key: "slice_us",
                range: SPAN_US,
                default: Some(5_500),
                unit: "us of work before a sleep, of slice",
            },
            Parameter { key: "burst_us", range: SPAN_US, default: Some(200), unit: "us of work of a burst" },
            Parameter { key: "rest_us", range: SPAN_US, default: Some(100), unit: "us of each sleep" },
        ],
        model: None,
    }),
    linux: None,
    headline: &[Throughput, ThievesCpuShare, HogThroughput],
    plotted: &[ThievesCpuShare],
    context: &[Throughput, HogThroughput, Jain],
    source: None,
};

/// The range of a thief's times: none is longer than a second.
const SPAN_US: std::ops::RangeInclusive<u64> = 10..=1_000_000;
