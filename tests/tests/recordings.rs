//! Recordings of whole VMs: a policy that is asked again decides the same, the times of all vCPUs add up, and the vCPU
//! that caused a wait is named.

use kvm_ioctls::Kvm;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use stile_config::PolicyConfig;
use stile_recording::explain::{Longest, explain};
use stile_recording::figures::figures;
use stile_recording::replay::replay;
use stile_recording::{Header, Recorder, Recording, chrome};
use stile_results::model::Params;
use stile_sched::ledger::RECORDS;
use stile_sched::policy::BUILT_IN;
use stile_tests::carrier::pcpus;
use stile_tests::{Guest, Recipe, require_kvm, skip};
use tempfile::TempDir;

/// Mechanisms, and policies with other parameters, beside the built-in policies.
const VARIANTS: [&str; 6] = [
    "rsdl:executors:shard_pcpus=1",
    "rsdl:leases",
    "rsdl:leases:steal",
    "rsdl+expire:level-quota",
    "freelist:leases:steal",
    "goodness:yield_recalculates:yield_bounces",
];

/// Every policy and mechanism.
fn policies() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|policy| policy.name).chain(VARIANTS)
}

/// Runs guests on this many pCPUs until each has made progress, and records them. They are made in this order, so that
/// the first has the first ids.
fn record(kvm: &Kvm, path: &Path, policy: &str, most_pcpus: usize, recipes: &[Recipe]) -> Recording {
    let policy: PolicyConfig = policy.parse().expect("the tests name policies that exist");
    let cpus = pcpus().into_iter().take(most_pcpus).map(|cpu| cpu as u32).collect();
    let domain = stile_assembly::domain(&policy, &cpus).expect("this process may start threads");
    let header = Header::new(&policy, &cpus, "a test", Params::default());
    let recorder = Recorder::start(path, header, &*domain).expect("a test may write temporary files");
    let guests: Vec<Guest> = recipes.iter().map(|recipe| recipe.create(kvm, &domain)).collect();
    guests.iter().for_each(|guest| recorder.name(guest));
    guests.iter().for_each(|guest| guest.start());
    guests.iter().for_each(|guest| guest.progresses(0..guest.state().vcpus(), 20));
    drop(guests);
    assert_eq!(Arc::strong_count(&domain), 1, "something still holds the domain");
    let recorded = recorder.finish().expect("as above");
    assert_eq!(recorded.lost, 0, "the rings hold seconds of these guests");
    Recording::open(path).expect("what was written can be read")
}

fn folder() -> (TempDir, PathBuf) {
    let folder = TempDir::new().expect("a test may write temporary files");
    let path = folder.path().join("run.rec");
    (folder, path)
}

fn guests() -> [Recipe; 3] {
    let mix = Recipe::builtin("mix").vcpus(6).cmdline("roles=pair:2,locker:2,hog:1,probe:1");
    [mix, Recipe::builtin("ticket").vcpus(3).cmdline("hint=none"), Recipe::builtin("probe").vcpus(2)]
}

#[test]
fn a_recorded_run_replays_to_the_same_decisions_under_every_policy() {
    let kvm = require_kvm!();
    if !RECORDS {
        return skip("built without the feature `trace`");
    }
    for policy in policies() {
        let (_folder, path) = folder();
        let recording = record(&kvm, &path, policy, 2, &guests());
        let replayed = replay(&recording).unwrap();
        assert_eq!(replayed.stopped, None, "{policy}");
        assert!(replayed.compared > 100, "{policy}: {replayed:?}");
    }
}

#[test]
fn every_vcpu_of_a_recording_has_a_name_and_its_time_adds_up() {
    let kvm = require_kvm!();
    if !RECORDS {
        return skip("built without the feature `trace`");
    }
    for policy in ["rsdl", "rsdl:leases"] {
        let (_folder, path) = folder();
        let recording = record(&kvm, &path, policy, 2, &guests());
        let figures = figures(&recording).unwrap();
        let names: Vec<&str> = figures.vcpus.iter().map(|vcpu| vcpu.vcpu.as_str()).collect();
        let expected = [("mix", 6), ("ticket", 3), ("probe", 2)];
        let expected = expected.iter().flat_map(|(vm, vcpus)| (0..*vcpus).map(move |index| format!("{vm}/{index}")));
        assert_eq!(names, expected.collect::<Vec<_>>());
        assert!(figures.complete && figures.switches_per_s > 0.0);
        let pcpus = recording.header().slots() as u64;
        let run: u64 = figures.vcpus.iter().map(|vcpu| vcpu.run_ns).sum();
        assert!(run > 0 && run <= pcpus * figures.span_ns, "{policy}: {run} of {pcpus} * {}", figures.span_ns);
        for vcpu in &figures.vcpus {
            let all = vcpu.run_ns + vcpu.wait_ns + vcpu.idle_ns;
            assert!(all > 0 && all <= figures.span_ns, "{policy}: {vcpu:?}");
            assert!(vcpu.wait_p50_ns <= vcpu.wait_p99_ns && vcpu.wait_p99_ns <= vcpu.wait_max_ns.max(256), "{vcpu:?}");
        }
        let mut trace = Vec::new();
        chrome::write(&recording, &mut trace).unwrap();
        assert!(trace.ends_with(b"]}\n"), "{policy}");
    }
}

#[test]
fn a_probe_behind_a_hog_has_the_hog_to_blame() {
    let kvm = require_kvm!();
    if !RECORDS {
        return skip("built without the feature `trace`");
    }
    for policy in ["freelist", "freelist:leases"] {
        let guests = [Recipe::builtin("hog"), Recipe::builtin("probe").cmdline("period_us=3000 work_us=20")];
        let longest = || {
            let (_folder, path) = folder();
            let recording = record(&kvm, &path, policy, 1, &guests);
            explain(&recording, "probe/0").unwrap().longest.expect("a probe is woken and waits")
        };
        // The host spoils a run when it takes the pCPU for most of the longest wait, or from the probe's 20 us of work.
        let spoiled = |longest: &Longest| match longest.cause {
            "host" => {
                assert!(longest.taken_ns * 2 >= longest.to_ns - longest.from_ns, "{policy}: {longest:?}");
                true
            }
            cause => cause == "quota",
        };
        let Some(longest) = (0..20).map(|_| longest()).find(|longest| !spoiled(longest)) else {
            return skip("the host took the pCPU for most of the longest wait in each of twenty runs");
        };
        assert_eq!((longest.cause, longest.culprit.as_deref()), ("turns", Some("hog/0")), "{policy}: {longest:?}");
        assert_eq!(longest.ran[0].vcpu, "hog/0");
    }
}
