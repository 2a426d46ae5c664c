//! The suite `interactive`: every load with its probes as real guests, briefly.

use std::sync::atomic::AtomicBool;
use stile_compare::{CompareError, End, Options, Plan, Progress, Ran, Runner};
use stile_host::allowed_cpus;
use stile_machine::vm::Outcome;
use stile_report::sources;
use stile_results::Report;
use stile_results::model::{ParamValue, Sample};
use stile_results::rating::Probe;
use stile_suites::{Load, Metric, RunKind, Setup, Suite};
use stile_tests::{Carrier, Recipe, require_kvm, wait_for};

const POLICIES: [&str; 2] = ["host", "rsdl+polite"];

fn options(loads: &[Load], settings: &[(&str, u64)]) -> Options {
    let policies = POLICIES.map(|name| (name.to_owned(), name.parse().expect("the policies are known"))).into();
    let pcpus = allowed_cpus().expect("a process may know its CPUs").iter().take(2).collect();
    Options {
        setups: loads.iter().copied().map(Setup::Load).collect(),
        reps: Some(1),
        duration: Some(0.2),
        settings: settings.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect(),
        kind: RunKind::Quick,
        ..Options::new(Suite::Interactive, policies, pcpus)
    }
}

fn run(kvm: &kvm_ioctls::Kvm, options: &Options) -> Result<Vec<Sample>, CompareError> {
    let (plan, going_on) = (Plan::new(options), AtomicBool::new(false));
    let Ran { samples, end, .. } =
        Runner::new(kvm, options, &going_on).run(&plan, &mut Progress::new(plan.estimate(), false));
    match end {
        End::Complete => Ok(samples),
        End::Interrupted => panic!("nobody interrupted the run"),
        End::Failed(why) => Err(why),
    }
}

fn text(sample: &Sample, name: &str) -> Option<String> {
    sample.params.get(name).map(ParamValue::to_string)
}

/// Runs one load under both policies, and checks that it did some work and that every probe was measured.
fn runs(load: Load) {
    let kvm = require_kvm!();
    let samples = run(&kvm, &options(&[load], &[("buffer_mb", 2), ("jobs", 24)])).unwrap_or_else(|why| panic!("{why}"));
    for policy in POLICIES {
        let of = |probe: Option<Probe>| {
            let wanted = |sample: &&Sample| {
                sample.policy == policy && text(sample, "probe").as_deref() == probe.map(Probe::name)
            };
            let found: Vec<&Sample> = samples.iter().filter(wanted).collect();
            assert_eq!(found.len(), 1, "{policy}, {probe:?}");
            assert_eq!(text(found[0], "load").as_deref(), Some(load.name()));
            &found[0].values
        };
        let work = of(None).get(&Metric::Throughput).copied();
        assert_eq!(work.is_some_and(|rate| rate > 0.0), load != Load::None, "{policy}: {work:?}");
        for metric in [Metric::BuildReal, Metric::BuildUser] {
            let time = of(None).get(&metric).copied();
            assert_eq!(time.is_some_and(|us| us > 0.0), load.is_build(), "{policy}: {metric:?} {time:?}");
        }
        for probe in Probe::ALL {
            let values = of(Some(probe));
            assert!(values.contains_key(&Metric::LatencyP99), "{policy}, {probe:?}: {values:?}");
            let missed = values.get(&Metric::MissedShare).copied().unwrap_or(0.0);
            assert!((0.0..=100.0).contains(&missed), "{policy}, {probe:?}: {missed}");
        }
    }
    let tables = sources::tables(&Report::from_samples(&samples, Default::default()));
    let [table] = &tables[..] else { panic!("the report has cells of this suite alone: {tables:?}") };
    assert!(table.rows.iter().all(|row| row.len() == table.header.len()), "{table:?}");
}

#[test]
fn probes_run_beside_nothing() {
    runs(Load::None);
}

#[test]
fn probes_run_beside_copies() {
    runs(Load::Memload);
}

#[test]
fn probes_run_beside_programs_that_are_loaded_anew() {
    runs(Load::Execload);
}

#[test]
fn probes_run_beside_vms_that_come_and_go() {
    runs(Load::Forkload);
}

#[test]
fn probes_run_beside_a_build() {
    runs(Load::Make);
}

#[test]
fn probes_run_beside_a_build_with_a_compiler_cache() {
    runs(Load::MakeCcache);
}

#[test]
fn a_load_that_refuses_its_parameters_ends_the_run_and_is_named() {
    let kvm = require_kvm!();
    let refused = run(&kvm, &options(&[Load::Make], &[("jobs", 0)])).expect_err("there is no build of nothing");
    assert!(matches!(&refused, CompareError::Ended { name, .. } if name == "make-0"), "{refused}");
}

#[test]
fn a_build_does_every_job_once_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        let domain = carrier.domain();
        let guest = Recipe::builtin("make").vcpus(3).cmdline("jobs=17 cached=50 io_us=100").start(&kvm, &domain);
        // Headers, 17 compilations, 3 archives, the link.
        let done = || (0..3).map(|vcpu| guest.ops(vcpu)).sum::<u64>();
        wait_for("the build is done", || {
            assert_eq!(guest.state().outcome(), None, "{carrier}: {}", guest.console());
            done() == 22
        });
        guest.stop();
        assert_eq!((guest.wait(), done(), guest.console().as_str()), (Outcome::Stopped, 22, ""), "{carrier}");
    }
}

#[test]
fn keys_are_echoed_under_every_carrier() {
    let kvm = require_kvm!();
    for carrier in Carrier::all() {
        let domain = carrier.domain();
        let line = "period_us=2000 work_us=100";
        let guest = Recipe::builtin("terminal").vcpus(2).cmdline(line).start(&kvm, &domain);
        guest.all_progress(20);
        guest.stop();
        assert_eq!((guest.wait(), guest.console().as_str()), (Outcome::Stopped, ""), "{carrier}");
    }
}
