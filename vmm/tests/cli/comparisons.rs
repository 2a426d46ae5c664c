//! Comparisons with guests: refused options, and the files that runs leave.

use super::program::{output, stile};
use std::fs;
use stile_tests::require_kvm;
use tempfile::TempDir;

#[test]
fn a_comparison_that_cannot_be_is_refused_before_it_begins() {
    let folder = TempDir::new().unwrap();
    for (arguments, words) in [
        (["--pcpus", "4095"], "CPU 4095"),
        (["--clients", "3"], "--vcpus"),
        (["--setup", "make"], "ticket has none to choose"),
        (["--setup", "bake"], "make-ccache"),
        (["--vms", "3"], "--vcpus"),
        (["--setup", "up"], "ticket has none to choose"),
        (["--vcpus", "0"], "--vcpus"),
        (["--policies", "none"], "rsdl"),
        (["--duration", "0"], "seconds"),
        (
            ["--set", "hold=500"],
            "no parameter `hold`; did you mean `hold_ns`? accepted: `gap_ns`, `hold_ns` or `spins`",
        ),
        (["--set", "users=5"], "it is a parameter of volano"),
        (["--set", "hold_ns=9999999999"], "0 to 1000000000 ns of work with the lock held"),
        (["--policies", "o1:grain"], "`grain` means nothing to `o1`: it is for `rsdl`"),
        (["--policies", "rsdl:bug1"], "`bug1` behind a policy's name is no option of a policy; accepted: KEY=VALUE"),
        (["--junit", "nowhere/cells.xml"], "cannot write nowhere/cells.xml; name a file in a folder that exists"),
    ] {
        let (status, stdout, stderr) = output(stile(folder.path(), &[&["compare", "ticket"], &arguments[..]].concat()));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }
    let timed = stile(folder.path(), &["compare", "volano", "--duration", "1"]);
    let (status, stdout, stderr) = output(timed);
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "work that has an end has no window: {stderr}");
    assert!(stderr.contains("messages=N"), "{stderr}");
    for (compare, words) in [
        ("volano --set users=1", "users=1 is out of range; volano accepts 2 to 64 users in a room"),
        ("hackbench --set fan=65", "hackbench accepts 1 to 64 senders"),
        ("reports --set fans=3", "did you mean `fan`?"),
        ("boot --setup 1x1M", "--setup 1x1M: memory of 1024 KiB is too small"),
        ("pingpong --vcpus 1", "pingpong means nothing with 1 vCPU: it needs 2 at least, a pair"),
        ("interactive --setup make --vcpus 65", "at most 64 vCPUs, not 65"),
    ] {
        for sim in ["", " --sim"] {
            let line = format!("compare {compare}{sim}");
            let (status, stdout, stderr) = output(stile(folder.path(), &line.split(' ').collect::<Vec<_>>()));
            assert_eq!((status, stdout.as_str()), (Some(2), ""), "{line}: {stderr}");
            assert!(stderr.contains(words), "{line}: {stderr}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a report of nothing");
}

/// The folder and output of a comparison with windows of `seconds`.
#[track_caller]
fn compared(suite: &str, seconds: &str) -> (TempDir, String) {
    let folder = TempDir::new().expect("a test may write temporary files");
    let compare = format!("compare {suite} --policies host,rsdl --reps 1 --duration {seconds} --out report");
    let (status, stdout, stderr) = output(stile(folder.path(), &compare.split(' ').collect::<Vec<_>>()));
    assert_eq!(status, Some(0), "{suite}: {stderr}");
    (folder, stdout)
}

#[test]
fn a_report_has_the_steps_of_its_last_run_and_what_others_have_put_beside_them() {
    let _ = require_kvm!();
    let folder = TempDir::new().unwrap();
    let steps = folder.path().join("report/netbench");
    let run = |policy: &str| {
        let compare =
            format!("compare netbench --clients 1 --policies {policy} --reps 1 --duration 0.05 --out report --force");
        let (status, _, stderr) = output(stile(folder.path(), &compare.split(' ').collect::<Vec<_>>()));
        assert_eq!(status, Some(0), "{stderr}");
        ["host", "rsdl"].map(|policy| steps.join(format!("usual/{policy}/1-clients/round-0/results.json")).exists())
    };
    assert_eq!(run("host,rsdl"), [true, true]);
    let foreign = steps.join("usual/host/1-clients/round-0/plot.svg");
    fs::write(&foreign, "mine").unwrap();
    assert_eq!(run("rsdl"), [false, true]);
    let beside = fs::read_dir(foreign.parent().unwrap()).unwrap().count();
    assert_eq!((fs::read_to_string(&foreign).unwrap().as_str(), beside), ("mine", 1));
}

#[test]
fn a_comparison_leaves_a_report_that_its_own_check_accepts() {
    let _ = require_kvm!();
    for suite in ["hogs --vcpus 1", "threeway --vcpus 6", "weights --vcpus 2 --pcpus 0"] {
        let (folder, stdout) = compared(suite, "0.05");
        assert!(stdout.contains("report/report.html"), "{stdout}");
        let (status, _, stderr) = output(stile(folder.path(), &["check-report", "report/report.json"]));
        assert_eq!(status, Some(0), "{suite}: {stderr}");
    }
}

#[test]
fn a_report_has_what_its_suite_is_about() {
    let _ = require_kvm!();
    for (suite, metrics) in [
        ("threeway --vcpus 6", &["pairs_cpu_share", "lockers_cpu_share", "hogs_cpu_share", "jain_cpu"][..]),
        ("threeway --vcpus 6 --hint none", &["pair_throughput", "hog_throughput"]),
        ("mixed --vcpus 4", &["lockers_cpu_share", "hogs_cpu_share"]),
        ("weights --vcpus 3 --pcpus 0", &["nice0_share", "nice5_share", "nice10_share", "weight_error"]),
        ("pingpong --vcpus 4 --hint none", &["latency_max", "jain"]),
        ("ticket --vcpus 4 --hint none --pcpus 0", &["throughput", "jain"]),
    ] {
        // On a busy host no lock may change hands in a short window, and what did not happen has no figures.
        let mut missing = metrics.to_vec();
        for seconds in ["0.05", "0.5", "5"] {
            let (folder, _) = compared(suite, seconds);
            let report = fs::read_to_string(folder.path().join("report/report.json")).unwrap();
            missing.retain(|metric| !report.contains(&format!("\"{metric}\"")));
            if missing.is_empty() {
                break;
            }
        }
        assert!(missing.is_empty(), "{suite}: no {missing:?}");
    }
}

#[test]
fn work_that_has_an_end_is_compared_by_its_length_and_what_the_policies_count() {
    let _ = require_kvm!();
    let goodness = "goodness:yield_recalculates:yield_bounces";
    for (suite, metrics) in [
        ("hackbench --groups 1,2 --set fan=3 --set loops=20", &["run_time", "throughput", "peak_memory"][..]),
        ("volano --rooms 1 --set users=3 --set messages=50", &["run_time", "lone_yields_per_s", "extra_passes_per_s"]),
    ] {
        let folder = TempDir::new().unwrap();
        let compare = format!("compare {suite} --policies host,{goodness},rsdl --reps 1 --out report");
        let (status, _, stderr) = output(stile(folder.path(), &compare.split(' ').collect::<Vec<_>>()));
        assert_eq!(status, Some(0), "{suite}: {stderr}");
        let report = fs::read_to_string(folder.path().join("report/report.json")).unwrap();
        for metric in metrics {
            assert!(report.contains(&format!("\"{metric}\"")), "{suite}: no {metric}");
        }
    }
}

#[test]
fn a_damaged_message_fails_the_run_and_is_named() {
    let _ = require_kvm!();
    for suite in ["hackbench --groups 2 --set fan=2", "volano --rooms 2 --set users=2"] {
        let folder = TempDir::new().unwrap();
        let compare = format!("compare {suite} --set corrupt=1 --policies rsdl --reps 1 --out report");
        let (status, stdout, stderr) = output(stile(folder.path(), &compare.split(' ').collect::<Vec<_>>()));
        assert_eq!(status, Some(1), "{suite}: {stderr}");
        assert!(stderr.contains("exit code 1") && stderr.contains("under rsdl"), "{suite}: {stderr}");
        assert!(format!("{stdout}{stderr}").contains("is corrupt"), "{suite}: {stdout}{stderr}");
    }
}
