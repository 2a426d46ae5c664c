//! Tests of what simulated cells promise, whatever the policy's quality.

use super::*;
use crate::plan::Plan;
use crate::plan::case::Case;
use std::collections::BTreeMap;
use std::time::Duration;
use stile_host::{HostCosts, Neighbours};
use stile_sched::policy::BUILT_IN;
use stile_suites::{Metric, Suite};

pub(super) fn options(suite: Suite, policies: &[&str], size: u32, pcpus: u32) -> Options {
    let policies = policies.iter().map(|name| ((*name).to_owned(), name.parse().unwrap())).collect();
    Options {
        sizes: vec![size],
        reps: Some(1),
        duration: Some(0.1),
        // Fewer messages, since this may be a debug build.
        settings: [("work_ns", 2_000), ("users", 3), ("messages", 20)].map(|(key, n)| (key.to_owned(), n)).to_vec(),
        ..Options::new(suite, policies, (0..pcpus).collect())
    }
}

pub(super) fn simulation() -> Simulation {
    Simulation { neighbours: Neighbours::default(), costs: HostCosts::default() }
}

pub(super) fn values(options: &Options) -> Vec<BTreeMap<Metric, f64>> {
    let (simulation, go_on) = (simulation(), AtomicBool::new(false));
    let cells = Plan::new(options).cells;
    let measured =
        cells.iter().map(|cell| measure(options, &simulation, cell, None, &go_on).unwrap().unwrap().remove(0).values);
    measured.collect()
}

#[test]
fn every_suite_gives_its_headline_metrics_under_every_policy() {
    let others = ["host", "host-noyield", "rsdl+expire", "rsdl+none"];
    let policies: Vec<&str> = BUILT_IN.iter().map(|policy| policy.name).chain(others).collect();
    for suite in Suite::ALL.into_iter().filter(|&suite| suite.model().is_some()) {
        for values in values(&options(suite, &policies, 6, 2)) {
            let missing: Vec<&Metric> = suite.headline().iter().filter(|metric| !values.contains_key(metric)).collect();
            // A vCPU that is starved for the whole window has no wait in the histogram.
            assert!(missing.iter().all(|metric| metric.is_time()), "{suite}: no {missing:?}");
            assert!(values[&Metric::Throughput] > 0.0, "{suite}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_events_and_another_seed_others() {
    let of = |seed: u64, suite| {
        let options = Options { seed, ..options(suite, &["rsdl"], 6, 2) };
        let (simulation, go_on) = (simulation(), AtomicBool::new(false));
        let cell = CellPlan { round: 0, policy: 0, case: Case::of_size(6), window: Duration::from_millis(50) };
        let mut stage = Stage::new(&options, &simulation, &cell, suite.model().unwrap(), &go_on);
        stage.machine = stage.machine.traced();
        if let Some(work) = Work::of(&options, 6) {
            ending::build(&mut stage, work).unwrap();
        }
        stage.start();
        stage.machine.open_gates();
        assert!(stage.run(Nanos::from_millis(50)));
        stage.machine.trace().iter().map(|event| format!("{event}\n")).collect::<String>()
    };
    for suite in Suite::ALL.into_iter().filter(|&suite| suite.model().is_some()) {
        let (first, again) = (of(1, suite), of(1, suite));
        assert!(first.lines().count() > 10 && first == again, "{suite}");
        // Hogs only use up their leases, and no random draw decides anything.
        assert!(matches!(suite, Suite::Hogs | Suite::Weights) || first != of(2, suite), "{suite}");
    }
}

#[test]
fn any_number_of_pcpus_up_to_512_can_be_simulated() {
    for pcpus in [1, 2, 4, 8, 16, 64, 512] {
        let options = Options { duration: Some(0.02), ..options(Suite::Mixed, &["host", "rsdl"], 2 * pcpus, pcpus) };
        assert!(values(&options).iter().all(|values| values[&Metric::HogThroughput] > 0.0), "{pcpus}");
    }
}
