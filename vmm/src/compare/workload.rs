//! What the suites of one VM run, and who in it plays which part.

use super::Options;
use crate::report::metric::Suite;

/// What a vCPU does in its suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// What the suite is about: lockers, players, probes, or the hogs of `hogs`.
    Main,
    /// Computes beside it.
    Hog,
}

/// The built-in image of a suite.
pub(super) fn image(suite: Suite) -> &'static str {
    match suite {
        Suite::Ticket => "ticket",
        Suite::Pingpong => "pingpong",
        Suite::Mixed => "mix",
        Suite::Probe => "probe",
        Suite::Hogs => "hog",
        Suite::Netbench => "netbench-client",
    }
}

/// What the vCPU of this index does, as the guests divide it.
pub(super) fn part(suite: Suite, vcpu: usize, vcpus: usize) -> Part {
    let main = match suite {
        Suite::Mixed => vcpus / 2,
        Suite::Probe => vcpus.div_ceil(2),
        _ => vcpus,
    };
    if vcpu < main { Part::Main } else { Part::Hog }
}

/// The command line of the suite's guests.
pub(super) fn cmdline(options: &Options, loops_per_us: u64) -> String {
    let mut line = format!("loops_per_us={loops_per_us} hint={}", if options.hints { "full" } else { "none" });
    for (key, value) in &options.settings {
        line += &format!(" {key}={value}");
    }
    line
}

/// Memory for a VM of so many vCPUs (units: bytes): their stacks, the image, and some.
pub(super) fn memory(vcpus: u32) -> u64 {
    (8 + u64::from(vcpus) / 4) << 20
}
