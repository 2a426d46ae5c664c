//! The probes: programs that a user looks at, listens to and touches, and their results in a window.

use crate::cells::site::Site;
use crate::error::CompareError;
use crate::measurement::Measurement;
use crate::window::metrics::{detail, latency, work};
use crate::window::{Reading, VcpuCounts, Window};
use crate::workload::{manners, spec};
use serde_json::json;
use std::collections::BTreeMap;
use stile_machine::unikernel::{Spec, Vm};
use stile_results::model::Params;
use stile_results::rating::Probe;
use stile_sched::ledger::Totals;
use stile_suites::Metric;

/// Memory of a probe (units: bytes).
const MEMORY: u64 = 6 << 20;

/// The parameters of a probe. A job is due at the beginning of its period and must be done by its end.
pub(super) struct Profile {
    probe: Probe,
    image: &'static str,
    vcpus: u32,
    /// Time between jobs (unit: us).
    period_us: u64,
    /// CPU time of a job, on all vCPUs (unit: us).
    work_us: u64,
    /// Periods with a job, and then periods without.
    burst: u64,
    rest: u64,
    /// Other parameters of the image.
    line: &'static str,
}

/// The probes. Beryl and mp3 are interbench's video (60 Hz, 40 % of a CPU) and audio (50 ms, 5 %). Keys repeat as X
/// repeats them, 25 times a second. A USB mouse reports 125 times a second. The work of a job of galeon, the terminal
/// and the mouse, and the time that a picture waits for its graphics device, are assumed.
#[rustfmt::skip] // a table
pub(super) const PROFILES: [Profile; 5] = [
    Profile { probe: Probe::Beryl,    image: "frames",   vcpus: 1, period_us: 16_667, work_us: 6_667,  burst: 1, rest: 0, line: " waits=2 wait_us=500" },
    Profile { probe: Probe::Galeon,   image: "frames",   vcpus: 1, period_us: 33_333, work_us: 10_000, burst: 8, rest: 8, line: " waits=1 wait_us=500" },
    Profile { probe: Probe::Mp3,      image: "frames",   vcpus: 1, period_us: 50_000, work_us: 2_500,  burst: 1, rest: 0, line: "" },
    Profile { probe: Probe::Terminal, image: "terminal", vcpus: 2, period_us: 40_000, work_us: 500,    burst: 1, rest: 0, line: "" },
    Profile { probe: Probe::Mouse,    image: "frames",   vcpus: 1, period_us: 8_000,  work_us: 50,     burst: 1, rest: 0, line: "" },
];

/// The VM of each probe, which does not run yet.
pub(super) fn create(site: &Site<'_>) -> Result<Vec<Vm>, CompareError> {
    let (loops_per_us, manners) = (site.context.loops_per_us, manners(site.context.options));
    let create = |profile: &Profile| {
        let Profile { period_us, work_us, burst, rest, line, .. } = profile;
        let own = format!("period_us={period_us} work_us={work_us} burst={burst} rest={rest}{line}");
        let line = format!("loops_per_us={loops_per_us}{manners} {own}");
        let spec = spec(profile.image, profile.probe.name(), MEMORY, &line);
        site.create(&Spec { vcpus: profile.vcpus, ..spec }, None)
    };
    PROFILES.iter().map(create).collect()
}

/// Makes a sample for each probe, of a window in which their vCPUs come first.
pub(super) fn samples(vms: &[Vm], before: &Reading, window: &Window, params: Params) -> Vec<Measurement> {
    let mut first = 0;
    let sample = |(profile, vm): (&Profile, &Vm)| {
        let vcpus = first..first + vm.state().vcpus() as usize;
        // The first vCPU is the one that waits for deadlines.
        let late_before = before.waiting_ns(vcpus.start);
        first = vcpus.end;
        let own = Window {
            seconds: window.seconds,
            span: window.span,
            vcpus: window.vcpus[vcpus].to_vec(),
            totals: Totals::default(),
            kicks: None,
        };
        let missed = profile.missed(&own.vcpus[0], late_before);
        let mut own_detail = detail(&own);
        own_detail["missed"] = json!(missed);
        let params = params.clone().with("probe", profile.probe.name());
        Measurement { params, values: profile.values(&own, missed), detail: own_detail }
    };
    PROFILES.iter().zip(vms).map(sample).collect()
}

impl Profile {
    fn values(&self, window: &Window, missed: f64) -> BTreeMap<Metric, f64> {
        let main = &window.vcpus[0];
        let all: Vec<&VcpuCounts> = window.vcpus.iter().collect();
        let mut values = work(main.ops, window.seconds, &all);
        latency(&[main], &mut values);
        // A probe that was never done has no response but the one under way.
        let under_way = main.waiting_ns as f64 / 1000.0;
        for metric in [Metric::LatencyP99, Metric::LatencyP999] {
            values.entry(metric).or_insert(under_way);
        }
        let due = missed + main.ops as f64;
        if due > 0.0 {
            values.insert(Metric::MissedShare, 100.0 * missed / due);
        }
        values
    }

    /// Deadlines that passed in a window, including those of a job that is not done yet.
    fn missed(&self, vcpu: &VcpuCounts, late_before_ns: u64) -> f64 {
        (vcpu.spare[0] as f64 + self.overdue(vcpu.waiting_ns) - self.overdue(late_before_ns)).max(0.0)
    }

    /// Deadlines that passed for a job that was due this long ago.
    fn overdue(&self, late_ns: u64) -> f64 {
        let periods = late_ns.saturating_sub(1) / (self.period_us * 1000);
        (periods * self.burst) as f64 / (self.burst + self.rest) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_suites::{Suite, Vms};

    fn profile(probe: Probe) -> &'static Profile {
        const TABLE: &[Profile] = &PROFILES;
        TABLE.iter().find(|profile| profile.probe == probe).unwrap()
    }

    fn counts(missed: u64, waiting_ms: u64) -> VcpuCounts {
        VcpuCounts { spare: [missed, 0, 0], waiting_ns: waiting_ms * 1_000_000, ..VcpuCounts::default() }
    }

    #[test]
    fn deadlines_of_a_job_that_is_not_done_yet_count_from_the_windows_begin() {
        let mp3 = profile(Probe::Mp3);
        assert_eq!(mp3.missed(&counts(3, 0), 0), 3.0);
        assert_eq!(mp3.missed(&counts(3, 49), 0), 3.0, "not late yet");
        assert_eq!(mp3.missed(&counts(0, 1_001), 0), 20.0, "it has not come back at all");
        assert_eq!(mp3.missed(&counts(5, 0), 101_000_000), 3.0, "two of the five went by before");
    }

    #[test]
    fn the_suite_plans_a_vm_for_each_probe() {
        let Some(Vms::PerSize { each: 1, besides }) = Suite::Interactive.builtin().map(|guests| guests.vms) else {
            panic!("VMs of the load, and the probes besides");
        };
        assert_eq!(besides as usize, PROFILES.len());
    }

    #[test]
    fn a_scrolling_probe_owes_nothing_while_it_rests() {
        let galeon = profile(Probe::Galeon);
        assert_eq!(galeon.missed(&counts(0, 16 * 34), 0), 8.0);
    }

    #[test]
    fn every_probe_of_the_ratings_has_a_profile_that_fits_a_cpu() {
        assert_eq!(PROFILES.each_ref().map(|profile| profile.probe), Probe::ALL);
        for profile in &PROFILES {
            let busy = profile.work_us as f64 / profile.period_us as f64;
            assert!(profile.rest == 0 || (busy - Probe::GALEON_SCROLLING).abs() < 1e-4, "{busy}");
            let part = profile.burst as f64 / (profile.burst + profile.rest) as f64;
            assert!((busy * part - profile.probe.wants()).abs() < 1e-4, "{}", profile.probe.name());
        }
    }
}
