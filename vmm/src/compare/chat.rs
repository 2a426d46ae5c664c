//! A cell of the suites whose work has an end, `hackbench` and `volano`: VMs that are made, gather at their gates, begin
//! together, and are waited for until the last one has done its work. The window is that time.

use super::cell::{Measured, Measurement};
use super::metrics::{activity, detail, ops_rate};
use super::runner::CompareError;
use super::site::Site;
use super::window::{Reading, Window};
use super::{Options, workload};
use crate::host::memory;
use crate::report::metric::Metric;
use crate::report::suite::Suite;
use crate::vm::console::Sink;
use crate::vm::{Spec, Vm};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use stile_sched::domain::Attributes;
use stile_sched::policy::goodness::YieldCounts;
use stile_sched::time::monotonic;

/// How often the VMs are looked at; their own time stamps are exact.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// What a cell may take besides its work: on a busy host, a thousand vCPUs begin within seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many times as long as expected the work may take.
const SLOWEST: f64 = 20.0;

/// What is expected at most, so that sums stay within bounds (unit: s).
const LONGEST: f64 = 1e6;

/// What the VMs of a cell do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Work {
    suite: Suite,
    vms: u32,
    /// Of each VM.
    pub(super) vcpus: u32,
    /// Messages that are received in each VM.
    messages: u64,
}

impl Work {
    /// The work of a suite of this size with these settings; `None` if the suite's has no end.
    pub(super) fn of(options: &Options, vms: u32) -> Option<Self> {
        let set = |key: &str, default: u64| {
            options.settings.iter().rfind(|(k, _)| k == key).map_or(default, |(_, value)| *value)
        };
        let suite = options.suite;
        let (vcpus, messages) = match suite {
            Suite::Hackbench => {
                let fan = set("fan", 20);
                (fan.saturating_mul(2), fan.saturating_mul(fan).saturating_mul(set("loops", 100)))
            }
            Suite::Volano => {
                let users = set("users", 20);
                let heard = users.saturating_mul(users.saturating_sub(1));
                (users.saturating_mul(4), heard.saturating_mul(set("messages", 100)))
            }
            _ => return None,
        };
        Some(Self { suite, vms, vcpus: u32::try_from(vcpus).unwrap_or(u32::MAX), messages })
    }

    /// How long it takes, about (units: s).
    pub(super) fn expected(self) -> f64 {
        let per_second = if self.suite == Suite::Hackbench { 400e3 } else { 60e3 };
        (f64::from(self.vms) * self.messages as f64 / per_second).min(LONGEST)
    }

    /// VMs.
    pub(super) fn vms(self) -> u32 {
        self.vms
    }

    fn deadline(self) -> Duration {
        PATIENCE + Duration::from_secs_f64(self.expected() * SLOWEST)
    }
}

/// One cell; `None` if the user ended it.
pub(super) fn measure(site: &Site<'_>, work: Work) -> Result<Measured, CompareError> {
    let memory_is_fresh = memory::forget_peak();
    let vms = create(site, work)?;
    vms.iter().for_each(Vm::start);
    let waiting = Waiting { site, vms: &vms, work };
    if !waiting.until(PATIENCE, |vm| vm.state().is_at_gate())? {
        return Ok(None);
    }
    let all: Vec<&Vm> = vms.iter().collect();
    let before = Reading::take(&all, &*site.domain);
    let begun = monotonic();
    vms.iter().for_each(Vm::open_gate);
    if !waiting.until(work.deadline(), |vm| vm.state().done().is_some())? {
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
fn values(window: &Window) -> BTreeMap<Metric, f64> {
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
        let spec = Spec {
            name: &format!("{image}-{n}"),
            image: stile_guest_images::image(image).expect("the suites run built-in images"),
            vcpus: work.vcpus,
            memory: workload::memory(work.vcpus),
            attributes: Attributes::default(),
            cmdline: &cmdline,
            console: Sink::Terminal,
            device: None,
        };
        site.create(&spec, None)
    };
    (0..work.vms).map(create).collect()
}

/// VMs that are waited for.
struct Waiting<'a> {
    site: &'a Site<'a>,
    vms: &'a [Vm],
    work: Work,
}

impl Waiting<'_> {
    /// Waits until this holds for all VMs; false if the user ended the run. A VM that ends meanwhile, or that takes longer
    /// than this, is an error.
    fn until(&self, limit: Duration, is_reached: impl Fn(&Vm) -> bool) -> Result<bool, CompareError> {
        let begun = Instant::now();
        loop {
            self.vms.iter().try_for_each(|vm| self.site.still_runs(vm))?;
            let Some(last) = self.vms.iter().find(|vm| !is_reached(vm)) else { return Ok(true) };
            if begun.elapsed() > limit {
                return Err(self.late(last, limit));
            }
            if !self.site.sleep(LOOK_EVERY) {
                return Ok(false);
            }
        }
    }

    fn late(&self, vm: &Vm, after: Duration) -> CompareError {
        let counts = Reading::take(&[vm], &*self.site.domain);
        CompareError::Unfinished {
            name: vm.state().name().to_owned(),
            label: self.site.label.to_owned(),
            after,
            done: counts.ops(),
            due: self.work.messages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Hint;
    use super::*;
    use crate::host::CpuList;

    fn work(suite: Suite, settings: &[(&str, u64)], vms: u32) -> Option<Work> {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        let options = Options {
            suite,
            policies: Vec::new(),
            sizes: Vec::new(),
            per_pcpu: None,
            reps: None,
            duration: None,
            pcpus: CpuList::default(),
            hint: Hint::Full,
            settings,
            setups: Vec::new(),
            quick: false,
            full: false,
            until: None,
            budget: None,
            seed: 1,
        };
        Work::of(&options, vms)
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
