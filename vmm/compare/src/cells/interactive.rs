//! A cell of interactive: five probes, each in a VM of its own, beside one load.
//!
//! 1. The probes and the load start; a build does not yet. All VMs get ready, and then have the warm-up's time.
//! 2. The window: a length of time, or, for a build, from its start to its last job.
//! 3. One sample for the load, and one for each probe.

mod build;
mod forks;
mod loads;
mod probes;

use super::site::Site;
use crate::error::CompareError;
use crate::measurement::{Measured, Measurement};
use crate::plan::WARM_UP;
use crate::plan::case::Case;
use crate::window::metrics::{activity, detail, fairness, latency, ops_of, work};
use crate::window::{Reading, VcpuCounts, Window};
use build::Built;
use forks::Forks;
use loads::Loaded;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use stile_machine::unikernel::Vm;
use stile_results::model::Params;
use stile_suites::{Load, Metric, Setup};

/// The time limit until all VMs are ready: well beyond what that takes beside ten loads on a slow host.
const READY_WITHIN: Duration = Duration::from_secs(60);

pub(crate) fn measure(site: &Site<'_>) -> Result<Measured, CompareError> {
    let Case { size, setup: Setup::Load(load) } = site.planned.case else {
        unreachable!("every case of this suite has a load");
    };
    let cell = Cell { site, load, probes: probes::create(site)?, loaded: Loaded::create(site, load, size)? };
    if load != Load::Forkload {
        return cell.run(None);
    }
    let forks = Forks::new(site);
    std::thread::scope(|scope| {
        let running: Vec<_> =
            (0..size).map(|n| (&forks, n)).map(|(forks, n)| scope.spawn(move || forks.run(n))).collect();
        let measured = cell.run(Some(&forks));
        forks.stop();
        // A failed fork is reported first: it may explain other errors.
        let ended = running.into_iter().map(|thread| thread.join().expect("what starts VMs does not panic"));
        ended.collect::<Result<(), _>>()?;
        measured
    })
}

struct Cell<'a> {
    site: &'a Site<'a>,
    load: Load,
    probes: Vec<Vm>,
    loaded: Loaded,
}

impl Cell<'_> {
    fn run(&self, forks: Option<&Forks<'_>>) -> Result<Measured, CompareError> {
        let (site, loads) = (self.site, &self.loaded.vms);
        self.probes.iter().for_each(|vm| vm.start());
        let mut starting: Vec<&Vm> = self.probes.iter().collect();
        if !self.load.is_build() {
            loads.iter().for_each(|vm| vm.start());
            starting.extend(loads);
        }
        if !site.all_ready(&starting, READY_WITHIN)? || !site.sleep(WARM_UP) {
            return Ok(None);
        }
        let measured: Vec<&Vm> = self.probes.iter().chain(loads).collect();
        let forked = || forks.map_or(0, Forks::done);
        let (before, forked_before) = (Reading::take(&measured, &*site.domain), forked());
        let built = match self.load.is_build() {
            true => build::run(site, &loads[0], self.loaded.jobs)?,
            false => None,
        };
        if built.is_none() && (self.load.is_build() || !site.sleep(site.planned.window)) {
            return Ok(None);
        }
        let (after, forked) = (Reading::take(&measured, &*site.domain), forked() - forked_before);
        let window = before.until(&after);
        self.loaded.check(site)?;
        measured.iter().try_for_each(|vm| site.still_runs(vm))?;
        site.audit(&window)?;
        let load = self.load_sample(&window, forked, built);
        let probes = probes::samples(&self.probes, &before, &window, self.params());
        Ok(Some([load].into_iter().chain(probes).collect()))
    }

    fn params(&self) -> Params {
        Params::default().with("load", self.load.name())
    }

    /// The load's vCPUs are those after the probes'.
    fn load_sample(&self, window: &Window, forked: u64, built: Option<Built>) -> Measurement {
        let first: usize = self.probes.iter().map(|vm| vm.state().vcpus() as usize).sum();
        let vcpus: Vec<&VcpuCounts> = window.vcpus[first..].iter().collect();
        let mut values = activity(window);
        let done = match (self.load, built) {
            (Load::None, _) => None,
            (Load::Forkload, _) => Some((forked, window.seconds)),
            (_, Some(built)) => Some((ops_of(&vcpus), built.real.as_secs_f64())),
            (_, None) => Some((ops_of(&vcpus), window.seconds)),
        };
        values.extend(done.into_iter().flat_map(|(ops, seconds)| work(ops, seconds, &vcpus)));
        fairness(&vcpus, &mut values);
        latency(&vcpus, &mut values);
        values.extend(built.map(|built| times(built, &vcpus)).into_iter().flatten());
        let mut detail = detail(window);
        detail["forks"] = json!(forked);
        Measurement { params: self.params(), values, detail }
    }
}

/// A build's real, user and sys (units: us).
fn times(built: Built, vcpus: &[&VcpuCounts]) -> BTreeMap<Metric, f64> {
    let user = Duration::from_nanos(vcpus.iter().map(|v| v.usage.run_ns).sum());
    let of = [(Metric::BuildReal, built.real), (Metric::BuildUser, user), (Metric::BuildSys, built.sys)];
    of.map(|(metric, time)| (metric, time.as_secs_f64() * 1e6)).into()
}
