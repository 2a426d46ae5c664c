//! Programs of a desktop beside loads.

use super::descriptor::{Budget, Builtin, Counted, Descriptor, Length, PerKind, Vms};
use super::load::Load;
use super::metric::Metric::{BuildReal, BuildSys, BuildUser, LatencyP99, MissedShare, Throughput};
use super::parameter::{Parameter, SPINS, WORK_US};
use super::parts::{Role, Share};
use super::setup::Setup;
use super::source::{Claims, Source};

const LOADS: &[Setup] = &[
    Setup::Load(Load::None),
    Setup::Load(Load::Memload),
    Setup::Load(Load::Execload),
    Setup::Load(Load::Forkload),
    Setup::Load(Load::Make),
    Setup::Load(Load::MakeCcache),
];

pub(super) static SUITE: Descriptor = Descriptor {
    name: "interactive",
    about: "Five probes that a user would notice (pictures, scrolling, music, a terminal, a mouse) beside a load; latency is \
            from due to done, and a deadline is the begin of the next period.",
    unit: "ops/s",
    counted: Counted::Vcpus,
    least: None,
    setups: PerKind::all(LOADS),
    policies: PerKind::all(&["host", "host-noyield", "rsdl+none", "rsdl+expire", "rsdl+polite"]),
    // There are more policies than in other suites, each beside six loads.
    rounds: PerKind { usual: 3, quick: 1, full: 3 },
    budget: Budget { usual: 230.0, quick: 27.0 },
    length: Length::Fitting,
    builtin: Some(Builtin {
        image: "frames",
        // Each load has a usual size of its own.
        sizes: PerKind::all(&[]),
        // The five probes.
        vms: Vms::PerSize { each: 1, besides: 5 },
        warm_ups: 1,
        ramps_down: false,
        parts: &[Share::all(Role::Own)],
        tells_roles: false,
        waits: true,
        parameters: &[
            SPINS,
            Parameter { key: "buffer_mb", range: 1..=1024, default: Some(16), unit: "MB that a memload copies" },
            Parameter { key: "jobs", range: 1..=1816, default: None, unit: "compilations of a build" },
            Parameter {
                key: "io_us",
                range: 0..=1_000_000,
                default: Some(2_000),
                unit: "us for which a compilation waits for its files, each time",
            },
            Parameter {
                key: "touch_kb",
                range: 0..=2048,
                default: Some(128),
                unit: "KB that each life of an execload writes",
            },
            Parameter {
                key: "work_us",
                range: WORK_US,
                default: Some(200),
                unit: "us of work in each life of an execload",
            },
        ],
        model: None,
    }),
    linux: None,
    headline: &[Throughput, LatencyP99, MissedShare, BuildReal, BuildUser, BuildSys],
    plotted: &[Throughput, LatencyP99, MissedShare],
    context: &[],
    source: Some(Source {
        order: 1,
        citation: "\"RSDL-mm 0.28\", a test of -mm2, -mm2 without sched_yield, and RSDL without sched_yield (2007)",
        claims: Claims::Desktop,
    }),
};
