//! The command lines and the memory of the suites' guests.

use super::plan::options::Options;
use stile_machine::unikernel::Spec;
use stile_machine::vm::console::Sink;
use stile_sched::attributes::Attributes;
use stile_suites::parts::divide;

/// The command line of the suite's guests.
pub(super) fn cmdline(options: &Options, size: u32, loops_per_us: u64) -> String {
    let mut line = format!("loops_per_us={loops_per_us}{}", manners(options));
    if options.suite.builtin().is_some_and(|guests| guests.tells_roles) {
        let shares = options.suite.parts();
        let counts = shares.iter().zip(divide(shares, size as usize));
        let role = counts.filter_map(|(share, count)| Some(format!("{}:{count}", share.role.keyword()?)));
        line += &format!(" roles={}", role.collect::<Vec<_>>().join(","));
    }
    line
}

/// The end of a command line: the hints that guests give, and the parameters that the user has set.
pub(super) fn manners(options: &Options) -> String {
    let settings = options.settings.iter().map(|(key, value)| format!(" {key}={value}"));
    [format!(" hint={}", options.hint.name())].into_iter().chain(settings).collect()
}

/// A VM of one vCPU that runs a built-in image, with defaults for everything else.
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

/// Memory for a VM with this many vCPUs (unit: bytes): their stacks, the image, and a reserve.
pub(super) fn memory(vcpus: u32) -> u64 {
    (8 + u64::from(vcpus) / 4) << 20
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_suites::Suite;

    #[test]
    fn guests_are_told_their_roles_where_a_vm_has_several_that_its_image_does_not_know() {
        let line = |suite| cmdline(&Options::new(suite, Vec::new(), "0".parse().unwrap()), 8, 90);
        assert_eq!(line(Suite::Threeway), "loops_per_us=90 hint=full roles=pair:2,locker:3,hog:3");
        assert_eq!(line(Suite::Mixed), "loops_per_us=90 hint=full");
    }
}
