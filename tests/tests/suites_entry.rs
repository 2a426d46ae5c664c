//! The suites netbench, entry, partition and boot, each small and under several policies: they end, the work is done,
//! and all metrics are there.

use kvm_ioctls::Kvm;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use stile_compare::{End, Options, Plan, Progress, Ran, Runner};
use stile_host::allowed_cpus;
use stile_results::Sample;
use stile_suites::{Metric, Suite};
use stile_tests::require_kvm;

fn options(suite: Suite, policies: &[&str], sizes: &[u32], setups: &[&str]) -> Options {
    let policies = policies.iter().map(|name| ((*name).to_owned(), name.parse().expect("a policy"))).collect();
    Options {
        sizes: sizes.to_vec(),
        setups: setups.iter().map(|name| name.parse().expect("a setup")).collect(),
        reps: Some(1),
        duration: Some(0.2),
        ..Options::new(suite, policies, allowed_cpus().expect("the kernel tells"))
    }
}

/// All samples of a run that comes to its end; `prepare` may change the runner.
#[track_caller]
fn samples(kvm: &Kvm, options: &Options, prepare: impl for<'a> FnOnce(Runner<'a>) -> Runner<'a>) -> Vec<Sample> {
    let (plan, interrupted) = (Plan::new(options), AtomicBool::new(false));
    let runner = prepare(Runner::new(kvm, options, &interrupted));
    let Ran { samples, end, .. } = runner.run(&plan, &mut Progress::new(Duration::ZERO, false));
    assert!(matches!(end, End::Complete), "{end:?}");
    samples
}

/// A sample for messages: without its raw detail.
fn tell(sample: &Sample) -> String {
    let Sample { policy, params, values, .. } = sample;
    format!("{policy}, {params:?}: {values:?}")
}

fn param(sample: &Sample, name: &str) -> Option<String> {
    sample.params.get(name).map(ToString::to_string)
}

#[test]
fn entry_counts_and_times_entries_with_and_without_a_vm_under_every_kind_of_policy() {
    let kvm = require_kvm!();
    let policies = ["host", "freelist", "o1", "rsdl", "rsdl:leases"];
    let samples = samples(&kvm, &options(Suite::Entry, &policies, &[2], &[]), |runner| runner);
    assert_eq!(samples.len(), 4 * policies.len());
    for sample in &samples {
        for metric in [Metric::Throughput, Metric::LatencyP50, Metric::LatencyP99] {
            assert!(sample.values.get(&metric).is_some_and(|value| *value > 0.0), "{metric:?}: {}", tell(sample));
        }
        assert!(sample.values.contains_key(&Metric::Jitter), "{}", tell(sample));
    }
    let without_vm = samples.iter().filter(|sample| param(sample, "vm").is_some()).count();
    assert_eq!(without_vm, 2 * policies.len());
}

#[test]
fn partition_tells_what_both_ways_to_divide_the_vcpus_did() {
    let kvm = require_kvm!();
    let policies = ["host", "freelist", "rsdl"];
    let samples = samples(&kvm, &options(Suite::Partition, &policies, &[3], &[]), |runner| runner);
    assert_eq!(samples.len(), 2 * 2 * policies.len());
    for sample in &samples {
        assert!(sample.values[&Metric::Throughput] > 0.0, "{}", tell(sample));
        let split = param(sample, "split").unwrap() == "yes";
        assert_eq!(sample.values.contains_key(&Metric::SplitGain), split, "{}", tell(sample));
        let locks = param(sample, "locks").unwrap() == "one";
        assert_eq!(sample.values.contains_key(&Metric::LatencyP99), locks, "{}", tell(sample));
    }
}

#[test]
fn boot_tells_when_vms_of_each_kind_ran_and_were_ready_and_what_they_take() {
    let kvm = require_kvm!();
    let options = options(Suite::Boot, &["host", "o1", "rsdl"], &[1, 6], &["1x8M", "3x16M"]);
    let samples = samples(&kvm, &options, |runner| runner);
    assert_eq!(samples.len(), 3 * 2 * 2);
    for sample in &samples {
        let value = |metric| sample.values[&metric];
        assert!(
            0.0 < value(Metric::StartP50) && value(Metric::StartP50) <= value(Metric::StartP99),
            "{}",
            tell(sample)
        );
        assert!(value(Metric::StartP50) <= value(Metric::LatencyP50), "ready after it runs: {}", tell(sample));
        assert!(value(Metric::StartP99) <= value(Metric::StartLatencyMax), "{}", tell(sample));
        assert!(value(Metric::Throughput) > 0.0, "{}", tell(sample));
        // A guest touches 64 KiB of heap at least.
        assert!(value(Metric::MemoryPerVm) > 64.0, "{}", tell(sample));
    }
}

#[test]
fn netbench_moves_bytes_without_errors_in_every_setup_and_leaves_a_folder_for_each_step() {
    let kvm = require_kvm!();
    let folder = tempfile::tempdir().unwrap();
    let (policies, setups) = (["host", "o1", "rsdl"], ["up", "smp", "affinity"]);
    let options = options(Suite::Netbench, &policies, &[3], &setups);
    let samples = samples(&kvm, &options, |runner| runner.with_steps_in(folder.path().to_owned()));
    assert_eq!(samples.len(), 9);
    for sample in &samples {
        assert_eq!(sample.values[&Metric::DroppedFrames], 0.0, "{}", tell(sample));
        // The other policy starves clients, as its source found.
        if sample.policy != "o1" {
            assert!(sample.values[&Metric::Throughput] > 0.0, "{}", tell(sample));
            assert_eq!(sample.values[&Metric::ClientErrors], 0.0, "{}", tell(sample));
            assert!(sample.values[&Metric::MinShare] > 0.0, "a client got nothing: {}", tell(sample));
        }
    }
    for (setup, policy) in setups.iter().flat_map(|setup| policies.map(|policy| (setup, policy))) {
        let step = folder.path().join(format!("{setup}/{policy}/3-clients/round-0"));
        for file in ["configuration.json", "results.json", "activity.csv", "dropped_frames.txt", "proc/before/stat"] {
            let text = fs::read_to_string(step.join(file)).unwrap_or_else(|e| panic!("{setup}, {policy}, {file}: {e}"));
            assert!(!text.is_empty(), "{setup}, {policy}: {file}");
        }
        assert!(step.join("proc/after/interrupts").exists() && step.join("guests").is_dir());
    }
}

#[test]
fn with_affinity_no_vcpu_goes_from_one_pcpu_to_another() {
    let kvm = require_kvm!();
    let options = options(Suite::Netbench, &["freelist", "rsdl"], &[4], &["affinity"]);
    for sample in samples(&kvm, &options, |runner| runner) {
        assert_eq!(sample.values[&Metric::MigrationsPerS], 0.0, "{}", tell(&sample));
    }
}
