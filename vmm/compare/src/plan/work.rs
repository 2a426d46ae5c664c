//! The work of a cell, if it has an end.

use super::options::Options;
use std::time::Duration;

/// Time that a cell may take besides its work: on a busy host, a thousand vCPUs begin within seconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// The time limit for the work, as a multiple of the estimate.
const SLOWEST: f64 = 20.0;
/// The largest estimate, so that sums stay within bounds (unit: s).
const LONGEST: f64 = 1e6;

/// The work of the VMs of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Work {
    /// Number of VMs.
    pub(crate) vms: u32,
    /// vCPUs of each VM.
    pub(crate) vcpus: u32,
    /// Messages that are received in each VM.
    pub(crate) messages: u64,
    /// Messages that a slow host handles in a second.
    messages_per_s: f64,
}

impl Work {
    /// The work of a cell of this size; `None` if the suite's work has no end.
    pub(crate) fn of(options: &Options, vms: u32) -> Option<Self> {
        let work = options.suite.work()?;
        let of_vm = (work.of_vm)(&|key| options.number(key));
        let vcpus = u32::try_from(of_vm.vcpus).unwrap_or(u32::MAX);
        Some(Self { vms, vcpus, messages: of_vm.messages, messages_per_s: work.messages_per_s })
    }

    /// The estimated time (unit: s).
    pub(crate) fn expected(self) -> f64 {
        (f64::from(self.vms) * self.messages as f64 / self.messages_per_s).min(LONGEST)
    }

    /// Messages that are received in all VMs.
    pub(crate) fn all_messages(self) -> u64 {
        self.messages.saturating_mul(self.vms.into())
    }

    /// The time limit, after which the work is taken to hang.
    pub(crate) fn deadline(self) -> Duration {
        PATIENCE + Duration::from_secs_f64(self.expected() * SLOWEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_suites::Suite;

    fn work(suite: Suite, settings: &[(&str, u64)], vms: u32) -> Option<Work> {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        Work::of(&Options { settings, ..Options::new(suite, Vec::new(), "0-1".parse().unwrap()) }, vms)
    }

    #[test]
    fn the_work_is_the_source_s_unless_it_is_set() {
        let of = |suite, settings: &[_]| work(suite, settings, 1).map(|work| (work.vcpus, work.messages));
        assert_eq!(of(Suite::Hackbench, &[]), Some((40, 40_000)));
        assert_eq!(of(Suite::Hackbench, &[("fan", 3), ("loops", 2), ("fan", 4)]), Some((8, 32)));
        assert_eq!(of(Suite::Volano, &[]), Some((80, 38_000)));
        assert_eq!(of(Suite::Volano, &[("users", 4), ("messages", 10)]), Some((16, 120)));
        assert_eq!(of(Suite::Ticket, &[]), None, "it has a window");
    }

    #[test]
    fn nonsense_does_not_overflow() {
        for suite in [Suite::Hackbench, Suite::Volano] {
            let work = work(suite, &[("fan", u64::MAX), ("users", u64::MAX)], 1).unwrap();
            assert_eq!(work.vcpus, u32::MAX, "which no host has");
        }
    }

    #[test]
    fn the_deadline_is_far_beyond_what_is_expected() {
        for groups in [1, 50] {
            let work = work(Suite::Hackbench, &[], groups).unwrap();
            assert!(work.deadline() > Duration::from_secs_f64(10.0 * work.expected()));
        }
    }
}
