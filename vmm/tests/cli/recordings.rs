//! Recordings of runs and of comparisons, and the commands that read them.

use super::program::{folder, output, stile};
use std::fs;
use stile_tests::{require_kvm, skip};
use tempfile::TempDir;

/// A folder with a recording of some lockers beside a hog in `run.rec`; `None` without the feature that records.
fn recorded() -> Option<TempDir> {
    let config = "[host]\npcpus = [0]\n[[vm]]\nname = \"locks\"\nimage = \"builtin:ticket\"\nvcpus = 2\n\
                  [[vm]]\nname = \"hog\"\nimage = \"builtin:hog\"\n";
    let folder = folder(config);
    let (status, _, stderr) =
        output(stile(folder.path(), &["run", "stile.toml", "--for", "0.3", "--record", "run.rec"]));
    if stderr.contains("feature `trace`") {
        skip("built without the feature `trace`");
        return None;
    }
    assert_eq!(status, Some(0), "{stderr}");
    Some(folder)
}

#[test]
fn a_recorded_run_can_be_replayed_explained_and_looked_at() {
    let _ = require_kvm!();
    let Some(folder) = recorded() else { return };
    let told = |arguments: &[&str]| {
        let (status, stdout, stderr) = output(stile(folder.path(), arguments));
        assert_eq!(status, Some(0), "{arguments:?}: {stderr}");
        stdout
    };
    let replayed = told(&["replay", "run.rec"]);
    assert!(replayed.contains("decisions replayed, all the same") && replayed.contains("locks/1"), "{replayed}");
    let replayed: serde_json::Value = serde_json::from_str(&told(&["replay", "run.rec", "--json"])).unwrap();
    assert_eq!(replayed["replay"]["equal"], true);
    assert_eq!(replayed["figures"]["vcpus"].as_array().map(Vec::len), Some(3));
    let why = told(&["why", "hog/0", "run.rec"]);
    assert!(why.starts_with("hog/0 under rsdl") && why.contains("cause: "), "{why}");
    let why: serde_json::Value = serde_json::from_str(&told(&["why", "locks/0", "run.rec", "--json"])).unwrap();
    assert!(
        why["longest"]["culprit"].is_string() || why["longest"]["cause"] == "kick" || why["longest"]["cause"] == "host",
        "{why}"
    );
    let of_vm = told(&["why", "locks", "run.rec"]);
    assert!(of_vm.contains("locks/0 under rsdl") && of_vm.contains("locks/1 under rsdl"), "{of_vm}");
    let of_vm: serde_json::Value = serde_json::from_str(&told(&["why", "locks", "run.rec", "--json"])).unwrap();
    assert_eq!((of_vm[0]["vcpu"].as_str(), of_vm[1]["vcpu"].as_str()), (Some("locks/0"), Some("locks/1")));
    let printed = told(&["trace", "run.rec"]);
    told(&["trace", "run.rec", "--out", "run.json"]);
    assert_eq!(fs::read_to_string(folder.path().join("run.json")).unwrap(), printed);
    let trace: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert!(trace["traceEvents"].as_array().is_some_and(|events| events.len() > 10));
}

#[test]
fn a_capped_vm_has_its_cap_to_thank_and_its_run_replays() {
    let _ = require_kvm!();
    let config = "[host]\npcpus = [0]\n[[vm]]\nname = \"hog\"\nimage = \"builtin:hog\"\nvcpus = 2\ncap = 0.2\n";
    let folder = folder(config);
    let run = ["run", "stile.toml", "--for", "0.5", "--record", "run.rec", "--force"];
    for _ in 0..10 {
        let (status, _, stderr) = output(stile(folder.path(), &run));
        if stderr.contains("feature `trace`") {
            return skip("built without the feature `trace`");
        }
        assert_eq!(status, Some(0), "{stderr}");
        let (status, stdout, stderr) = output(stile(folder.path(), &["replay", "run.rec"]));
        assert_eq!(status, Some(0), "{stderr}");
        assert!(stdout.contains("all the same"), "{stdout}");
        let (_, _, stderr) = output(stile(folder.path(), &["why", "run.rec", "hog"]));
        assert!(stderr.contains("run.rec is a file") && stderr.contains("stile why hog run.rec"), "{stderr}");
        let (_, stdout, stderr) = output(stile(folder.path(), &["why", "hog/1", "run.rec"]));
        if stdout.contains("cause: cap: the VM of hog/1 had used up the CPU time that its cap allows") {
            return;
        }
        assert!(stdout.contains("the host had taken pCPUs"), "{stdout}{stderr}");
    }
    skip("the host took the pCPU during the longest wait in each of ten runs");
}

#[test]
fn what_is_no_recording_is_refused_by_all_who_read_them() {
    let _ = require_kvm!();
    let Some(folder) = recorded() else { return };
    let whole = fs::read(folder.path().join("run.rec")).unwrap();
    fs::write(folder.path().join("short.rec"), &whole[..whole.len() - 100]).unwrap();
    let config = ["stile.toml", "is not a recording", "--record"];
    let short = ["short.rec", "truncated", "record it anew"];
    let missing = ["none.rec", "cannot read", "--record"];
    for told in [config, short, missing] {
        for arguments in [&["trace", told[0]][..], &["why", "hog/0", told[0]], &["replay", told[0]]] {
            let (status, stdout, stderr) = output(stile(folder.path(), arguments));
            assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
            assert!(told.iter().all(|words| stderr.contains(words)), "{arguments:?}: {stderr}");
        }
    }
    for command in ["show", "check-report"] {
        let (status, stdout, stderr) = output(stile(folder.path(), &[command, "run.rec"]));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        for words in ["run.rec is a recording, not a report", "stile replay run.rec", "stile why VCPU run.rec"] {
            assert!(stderr.contains(words), "no `{words}` in: {stderr}");
        }
    }
    let (status, _, stderr) = output(stile(folder.path(), &["why", "nobody/7", "run.rec"]));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("`nobody/7`") && stderr.contains("locks/1"), "{stderr}");
}

#[test]
fn a_run_under_the_hosts_scheduler_cannot_be_recorded_and_starts_nothing() {
    let folder = folder("[policy]\nalgorithm = \"host\"\n[[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\n");
    for arguments in
        [&["run", "stile.toml", "--record", "a.rec"][..], &["compare", "hogs", "--policies", "host", "--record"]]
    {
        let (status, stdout, stderr) = output(stile(folder.path(), arguments));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains("nothing to record") || stderr.contains("feature `trace`"), "{stderr}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_comparison_leaves_a_recording_of_each_run_that_replays() {
    let _ = require_kvm!();
    if recorded().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let compare = "compare ticket --policies host,rsdl --vcpus 3 --reps 1 --duration 0.05 --out report --record";
    let (status, _, stderr) = output(stile(folder.path(), &compare.split(' ').collect::<Vec<_>>()));
    assert_eq!(status, Some(0), "{stderr}");
    let (status, stdout, stderr) = output(stile(folder.path(), &["replay", "report/raw/ticket-rsdl-3-round-0.rec"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("ticket/2") && stdout.contains("all the same"), "{stdout}");
    let twin = ["sim", "--replay", "report/raw/ticket-rsdl-3-round-0.rec", "--out", "twin"];
    let (status, stdout, stderr) = output(stile(folder.path(), &twin));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("all the same") && stdout.contains("yields for locks/s"), "{stdout}");
    let (status, stdout, stderr) = output(stile(folder.path(), &["replay", "twin/simulated.rec"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("all the same"), "{stdout}");
}
