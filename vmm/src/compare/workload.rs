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
    /// Has nobody to play with.
    Odd,
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
    let (main, others) = match suite {
        Suite::Mixed => (vcpus / 2, Part::Hog),
        Suite::Probe => (vcpus.div_ceil(2), Part::Hog),
        Suite::Pingpong => (vcpus & !1, Part::Odd),
        _ => (vcpus, Part::Odd),
    };
    if vcpu < main { Part::Main } else { others }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn count(suite: Suite, vcpus: usize, wanted: Part) -> usize {
        (0..vcpus).filter(|&vcpu| part(suite, vcpu, vcpus) == wanted).count()
    }

    #[test]
    fn odd_numbers_of_vcpus_are_divided_as_the_guests_do_it() {
        assert_eq!((count(Suite::Mixed, 5, Part::Main), count(Suite::Mixed, 5, Part::Hog)), (2, 3));
        assert_eq!((count(Suite::Probe, 5, Part::Main), count(Suite::Probe, 5, Part::Hog)), (3, 2));
        assert_eq!((count(Suite::Pingpong, 5, Part::Main), count(Suite::Pingpong, 5, Part::Odd)), (4, 1));
        assert_eq!(count(Suite::Ticket, 5, Part::Main), 5);
    }
}
