//! What the guests of the suites run, and which of their vCPUs plays which part.

use super::Options;
use super::window::weights;
use stile_machine::unikernel::Spec;
use stile_machine::vm::console::Sink;
use stile_results::suite::Suite;
use stile_sched::Nice;
use stile_sched::attributes::Attributes;

/// What a vCPU does in its suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// What the suite is about: lockers, players, probes, or the hogs of `hogs`.
    Main,
    /// Passes messages beside it.
    Pair,
    /// Computes beside it.
    Hog,
    /// Has nobody to play with.
    Odd,
}

/// One VM of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Guest {
    pub(super) name: String,
    pub(super) image: &'static str,
    pub(super) vcpus: u32,
    pub(super) nice: Nice,
}

/// The VMs of a suite of this size: one, but for `weights` one for each nice value, with vCPUs of equal number as far as
/// the size allows.
pub(super) fn guests(suite: Suite, size: u32) -> Vec<Guest> {
    let image = image(suite);
    if suite != Suite::Weights {
        return vec![Guest { name: image.to_owned(), image, vcpus: size, nice: Nice::default() }];
    }
    let nices = (0..).zip(weights::NICES).map(|(place, (nice, _))| Guest {
        name: format!("nice-{nice}"),
        image,
        vcpus: (size + weights::NICES.len() as u32 - 1 - place) / weights::NICES.len() as u32,
        nice: Nice::new(nice).expect("the suite's nice values are in range"),
    });
    nices.filter(|guest| guest.vcpus > 0).collect()
}

/// The built-in image of a suite.
pub(super) fn image(suite: Suite) -> &'static str {
    match suite {
        Suite::Ticket => "ticket",
        Suite::Pingpong => "pingpong",
        Suite::Mixed | Suite::Threeway => "mix",
        Suite::Probe => "probe",
        Suite::Hogs | Suite::Weights => "hog",
        Suite::Netbench => "netbench-client",
        Suite::Entry => "doorbell",
        Suite::Interactive => "frames",
        Suite::Partition => "ticket",
        Suite::Boot => "idle",
        Suite::Hackbench => "hackbench",
        Suite::Volano => "volano",
        Suite::Tbench | Suite::Cyclictest => unreachable!("{suite} has no built-in guests"),
    }
}

/// vCPUs of `threeway` in pairs, at the lock, and computing: a third each, as far as pairs allow.
fn thirds(vcpus: usize) -> [usize; 3] {
    let pairs = (vcpus + 3) / 6 * 2;
    let lockers = (vcpus - pairs) / 2;
    [pairs, lockers, vcpus - pairs - lockers]
}

/// What the vCPU of this index does, as the guests divide it.
pub(super) fn part(suite: Suite, vcpu: usize, vcpus: usize) -> Part {
    if suite == Suite::Threeway {
        let [pairs, lockers, _] = thirds(vcpus);
        return match vcpu {
            v if v < pairs => Part::Pair,
            v if v < pairs + lockers => Part::Main,
            _ => Part::Hog,
        };
    }
    let (main, others) = match suite {
        Suite::Mixed => (vcpus / 2, Part::Hog),
        Suite::Probe => (vcpus.div_ceil(2), Part::Hog),
        Suite::Pingpong => (vcpus & !1, Part::Odd),
        _ => (vcpus, Part::Odd),
    };
    if vcpu < main { Part::Main } else { others }
}

/// The command line of the suite's guests.
pub(super) fn cmdline(options: &Options, size: u32, loops_per_us: u64) -> String {
    let mut line = format!("loops_per_us={loops_per_us}{}", manners(options));
    if options.suite == Suite::Threeway {
        let [pairs, lockers, hogs] = thirds(size as usize);
        line += &format!(" roles=pair:{pairs},locker:{lockers},hog:{hogs}");
    }
    line
}

/// What guests tell of their waiting, and what the user has set, as the end of a command line.
pub(super) fn manners(options: &Options) -> String {
    let settings = options.settings.iter().map(|(key, value)| format!(" {key}={value}"));
    [format!(" hint={}", options.hint.name())].into_iter().chain(settings).collect()
}

/// A VM of one vCPU that runs a built-in image and differs in nothing else from others.
pub(super) fn spec<'a>(image: &str, name: &'a str, memory: u64, cmdline: &'a str) -> Spec<'a> {
    Spec {
        name,
        image: stile_guest_images::image(image).expect("the suites run built-in images"),
        vcpus: 1,
        memory,
        attributes: Attributes::default(),
        cmdline,
        console: Sink::Terminal,
        device: None,
    }
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

    #[test]
    fn three_ways_are_thirds_with_whole_pairs() {
        for (vcpus, expected) in [(1, [0, 0, 1]), (4, [2, 1, 1]), (6, [2; 3]), (8, [2, 3, 3]), (16, [6, 5, 5])] {
            assert_eq!(thirds(vcpus), expected, "{vcpus} vCPUs");
            let parts = [Part::Pair, Part::Main, Part::Hog].map(|wanted| count(Suite::Threeway, vcpus, wanted));
            assert_eq!(parts, expected, "{vcpus} vCPUs");
        }
    }

    #[test]
    fn nice_values_have_equal_numbers_of_vcpus_as_far_as_they_go() {
        let of = |size| guests(Suite::Weights, size).iter().map(|g| (g.nice.get(), g.vcpus)).collect::<Vec<_>>();
        assert_eq!(of(1), [(0, 1)]);
        assert_eq!(of(2), [(0, 1), (5, 1)]);
        assert_eq!(of(8), [(0, 3), (5, 3), (10, 2)]);
        assert_eq!(of(12), [(0, 4), (5, 4), (10, 4)]);
        assert_eq!(guests(Suite::Ticket, 12).len(), 1);
    }
}
