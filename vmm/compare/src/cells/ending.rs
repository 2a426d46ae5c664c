//! A cell of the suites whose work has an end, `hackbench` and `volano`: VMs that are made, gather at their gates, begin
//! together, and are waited for until the last one has done its work. The window is that time.

use super::site::Site;
use super::{Measured, Measurement};
use crate::Options;
use crate::error::CompareError;
use crate::window::metrics::{activity, detail, ops_rate};
use crate::window::{Reading, Window, ops};
use crate::workload::{self, spec};
use std::collections::BTreeMap;
use std::time::Duration;
use stile_host::memory;
use stile_machine::unikernel::{Spec, Vm};
use stile_results::metric::Metric;
use stile_results::suite::Suite;
use stile_sched::policy::YieldCounts;
use stile_sched::time::monotonic;

/// What a cell may take besides its work: on a busy host, a thousand vCPUs begin within seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many times as long as expected the work may take.
const SLOWEST: f64 = 20.0;

/// What is expected at most, so that sums stay within bounds (unit: s).
const LONGEST: f64 = 1e6;

/// Messages that each user of a chat room sends.
pub(crate) const VOLANO_MESSAGES: u64 = 100;

/// What the VMs of a cell do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    suite: Suite,
    vms: u32,
    /// Of each VM.
    pub(crate) vcpus: u32,
    /// Messages that are received in each VM.
    messages: u64,
}

impl Work {
    /// The work of a suite of this size with these settings; `None` if the suite's has no end.
    pub(crate) fn of(options: &Options, vms: u32) -> Option<Self> {
        let set = |key, default| options.setting(key).unwrap_or(default);
        let suite = options.suite;
        let (vcpus, messages) = match suite {
            Suite::Hackbench => {
                let fan = set("fan", 20);
                (fan.saturating_mul(2), fan.saturating_mul(fan).saturating_mul(set("loops", 100)))
            }
            Suite::Volano => {
                let users = set("users", 20);
                let heard = users.saturating_mul(users.saturating_sub(1));
                (users.saturating_mul(4), heard.saturating_mul(set("messages", VOLANO_MESSAGES)))
            }
            _ => return None,
        };
        Some(Self { suite, vms, vcpus: u32::try_from(vcpus).unwrap_or(u32::MAX), messages })
    }

    /// How long it takes, about (units: s).
    pub(crate) fn expected(self) -> f64 {
        let per_second = if self.suite == Suite::Hackbench { 400e3 } else { 60e3 };
        (f64::from(self.vms) * self.messages as f64 / per_second).min(LONGEST)
    }

    /// VMs.
    pub(crate) fn vms(self) -> u32 {
        self.vms
    }

    /// Messages that are received in all VMs.
    pub(crate) fn all_messages(self) -> u64 {
        self.messages.saturating_mul(self.vms.into())
    }

    /// After so long it will not end.
    pub(crate) fn deadline(self) -> Duration {
        PATIENCE + Duration::from_secs_f64(self.expected() * SLOWEST)
    }
}

/// One cell; `None` if the user ended it.
pub(super) fn measure(site: &Site<'_>, work: Work) -> Result<Measured, CompareError> {
    let memory_is_fresh = memory::forget_peak();
    let vms = create(site, work)?;
    vms.iter().for_each(|vm| vm.start());
    let all: Vec<&Vm> = vms.iter().collect();
    if !site.until(&all, PATIENCE, |vm| vm.state().is_at_gate(), |_| "was not at its gate".to_owned())? {
        return Ok(None);
    }
    let before = Reading::take(&all, &*site.domain);
    let begun = monotonic();
    vms.iter().for_each(Vm::open_gate);
    let how_far = |vm: &Vm| format!("had received {} of {} messages", ops([vm]), work.messages);
    if !site.until(&all, work.deadline(), |vm| vm.state().done().is_some(), how_far)? {
        return Ok(None);
    }
    let window = before.until(&Reading::take(&all, &*site.domain));
    site.audit(&window)?;
    let ended = vms.iter().filter_map(|vm| vm.state().done()).max().unwrap_or(begun);
    let window = Window { seconds: ended.since(begun).0 as f64 / 1e9, ..window };
    let mut values = values(&window);
    if memory_is_fresh {
        values.extend(memory::peak().map(|bytes| (Metric::PeakMemory, bytes as f64 / f64::from(1 << 20))));
    }
    Ok(Measurement::only(values, detail(&window)))
}

/// The metrics of a window that ends with the work.
pub(crate) fn values(window: &Window) -> BTreeMap<Metric, f64> {
    let mut values = activity(window);
    let rate = ops_rate(&window.vcpus.iter().collect::<Vec<_>>(), window.seconds);
    let (yields, told) = (window.totals.yields, window.totals.told);
    let per_second = |n: u64| n as f64 / window.seconds;
    values.extend([
        (Metric::Throughput, rate),
        (Metric::OpsPerS, rate),
        (Metric::RunTime, window.seconds * 1e6),
        (Metric::LoneYieldsPerS, per_second(yields.alone + told.sole)),
    ]);
    if told != YieldCounts::default() {
        values.insert(Metric::RecalculationsPerS, per_second(told.recalculations));
        values.insert(Metric::ExtraPassesPerS, per_second(told.extra_passes));
    }
    values
}

/// VMs of this cell that do not run yet.
fn create(site: &Site<'_>, work: Work) -> Result<Vec<Vm>, CompareError> {
    let suite = work.suite;
    let image = workload::image(suite);
    let cmdline = workload::cmdline(site.context.options, work.vcpus, site.context.loops_per_us);
    let create = |n| {
        let memory = workload::memory(work.vcpus);
        site.create(&Spec { vcpus: work.vcpus, ..spec(image, &format!("{image}-{n}"), memory, &cmdline) }, None)
    };
    (0..work.vms).map(create).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::options;

    fn work(suite: Suite, settings: &[(&str, u64)], vms: u32) -> Option<Work> {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        Work::of(&Options { settings, ..options(suite, &[], false) }, vms)
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
