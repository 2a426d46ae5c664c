//! Guests that are run: how they end, and the figures of the run.

use super::program::{folder, output, stile};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};
use stile_machine::unikernel::image::forge::code;
use stile_tests::require_kvm;

#[test]
fn guests_that_end_well_are_told_line_by_line_and_exit_0() {
    let _ = require_kvm!();
    let folder = folder("[[vm]]\nname = \"greeter\"\nimage = \"builtin:hello\"\nvcpus = 2\ncount = 2\n");
    let (status, stdout, stderr) = output(stile(folder.path(), &["run", "stile.toml"]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    for name in ["greeter-0", "greeter-1"] {
        for line in [format!("[{name}] hello from 2 vCPUs"), format!("[{name}] exit code 0")] {
            assert!(stdout.lines().any(|l| l == line), "no `{line}` in: {stdout}");
        }
    }
}

#[test]
fn a_guest_that_faults_is_told_on_stderr_beside_one_that_ends_well_and_exits_1() {
    let _ = require_kvm!();
    let config = "[[vm]]\nname = \"bad\"\nimage = \"bad.elf\"\n[[vm]]\nname = \"good\"\nimage = \"builtin:hello\"\n";
    let folder = folder(config);
    // ud2
    fs::write(folder.path().join("bad.elf"), code(&[0x0f, 0x0b])).unwrap();
    let (status, stdout, stderr) = output(stile(folder.path(), &["run", "stile.toml"]));
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("[bad] vCPU 0 at RIP 0x200000: exception 6 (invalid opcode)"), "{stderr}");
    assert!(stderr.contains("1 of 2 VMs"), "{stderr}");
    assert!(stdout.starts_with("[good] hello from 1 vCPU\n[good] exit code 0\n[bad] ran "), "{stdout}");
}

#[test]
fn a_time_limit_ends_guests_that_would_run_for_good() {
    let _ = require_kvm!();
    let folder = folder("[[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\nvcpus = 3\n");
    let (status, stdout, stderr) = output(stile(folder.path(), &["run", "stile.toml", "--for", "0.1"]));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    // Without --stats there is a line for each VM with its CPU time.
    let [stopped, got] = stdout.lines().collect::<Vec<_>>()[..] else { panic!("{stdout}") };
    assert_eq!(stopped, "[a] stopped");
    assert!(got.starts_with("[a] ran ") && got.contains(" CPUs; ready ") && got.contains("longest wait"), "{got}");
}

#[test]
fn a_run_with_a_socket_is_a_node_until_no_vm_runs_any_more() {
    let _ = require_kvm!();
    let config = "[[vm]]\nname = \"hi\"\nimage = \"builtin:hello\"\n[[vm]]\nname = \"a\"\nimage = \"own.elf\"\n";
    let folder = folder(config);
    // jmp to itself
    fs::write(folder.path().join("own.elf"), code(&[0xeb, 0xfe])).unwrap();
    let ask = |arguments: &[&str]| output(stile(folder.path(), &[arguments, &["--socket", "run.sock"]].concat()));
    let run = stile(folder.path(), &["run", "stile.toml", "--socket", "run.sock"]).stdout(Stdio::piped()).spawn();
    let run = run.expect("cargo built the program");
    let until = Instant::now() + Duration::from_secs(60);
    let both = |listed: &str| listed.contains("hi stopped") && listed.contains("a running");
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    while !both(&words(ask(&["ps"]).1)) {
        assert!(Instant::now() < until, "it does not serve: {:?}", ask(&["ps"]));
        sleep(Duration::from_millis(20));
    }
    assert_eq!(ask(&["set", "a", "nice=5"]).0, Some(0));
    assert_eq!(ask(&["stop", "a"]).0, Some(0));
    let ended = run.wait_with_output().unwrap();
    let stdout = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.status.code(), Some(0), "{stdout}");
    for line in ["[hi] hello from 1 vCPU", "[hi] exit code 0", "[a] stopped"] {
        assert!(stdout.lines().any(|l| l == line), "no `{line}` in: {stdout}");
    }
    assert!(stdout.contains("[a] ran ") && !folder.path().join("run.sock").exists(), "{stdout}");
}

#[test]
fn a_policy_of_the_command_line_takes_the_place_of_the_files() {
    let _ = require_kvm!();
    let folder = folder("[policy]\nalgorithm = \"host\"\n[[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\n");
    let run = |more: &[&str]| {
        let run = ["run", "stile.toml", "--for", "0.05"];
        let (status, stdout, stderr) = output(stile(folder.path(), &[&run, more].concat()));
        assert_eq!(status, Some(0), "{stderr}");
        stdout
    };
    // Only a policy object knows how long a vCPU waited.
    assert!(!run(&[]).contains("longest wait"));
    assert!(run(&["--policy", "rsdl:rr_interval=3ms"]).contains("longest wait"));
    let (status, _, stderr) = output(stile(folder.path(), &["run", "stile.toml", "--policy", "rsld"]));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("did you mean `rsdl`?"), "{stderr}");
}

#[test]
fn built_in_images_are_listed_in_the_help() {
    let (status, stdout, _) = output(stile(Path::new("/"), &["run", "--help"]));
    assert_eq!(status, Some(0));
    assert!(stdout.contains("builtin:NAME") && stdout.contains("hello") && stdout.contains("hog"), "{stdout}");
}

#[test]
fn ctrl_c_ends_running_guests_and_exits_130() {
    let _ = require_kvm!();
    let config = "[[vm]]\nname = \"sign\"\nimage = \"builtin:hello\"\n[[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\n";
    let folder = folder(config);
    let mut child = stile(folder.path(), &["run", "stile.toml"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    // By now the program listens for the signal.
    assert_eq!(lines.next().as_deref(), Some("[sign] hello from 1 vCPU"));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert!(lines.any(|line| line == "[a] stopped"));
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Every line of JSON that a run has written to the end so far.
fn json_lines(file: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(file).unwrap_or_default();
    let whole = lines.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

/// A figure of each vCPU of the first VM, summed, is the VM's.
#[track_caller]
fn a_vm_is_the_sum_of_its_vcpus(line: &Value, name: &str) -> f64 {
    let vm = &line["vms"][0];
    let number = |of: &Value| of[name].as_f64().unwrap_or_else(|| panic!("no number {name} in {of}"));
    let sum: f64 = vm["vcpus"].as_array().expect("a list of vCPUs").iter().map(number).sum();
    let of_vm = number(vm);
    assert!((of_vm - sum).abs() < 1e-6, "{name}: {of_vm}, and the vCPUs {sum}");
    of_vm
}

#[test]
fn stats_are_told_at_every_interval_and_at_the_end_and_add_up() {
    let _ = require_kvm!();
    for (policy, known) in [("rsdl", true), ("host", false)] {
        let config = format!(
            "[policy]\nalgorithm = \"{policy}\"\n[[vm]]\nname = \"a\"\nimage = \"builtin:ticket\"\nvcpus = 3\n\
             [[vm]]\nname = \"b\"\nimage = \"builtin:hello\"\n"
        );
        let folder = folder(&config);
        let run = ["run", "stile.toml", "--stats=0.1", "--stats-json", "stats.jsonl", "--for", "0.55"];
        let (status, stdout, stderr) = output(stile(folder.path(), &run));
        assert_eq!((status, stderr.as_str()), (Some(0), ""));
        let lines = json_lines(&folder.path().join("stats.jsonl"));
        let (last, before) = lines.split_last().unwrap();
        assert!(before.len() >= 2 && before.iter().all(|line| line["final"] == false) && last["final"] == true);
        // Two tables at the end, which have the vCPUs as well.
        assert_eq!(stdout.matches("% of").count(), lines.len(), "{stdout}");
        assert_eq!(stdout.matches("vCPU 2").count(), 2, "{stdout}");
        for line in &lines {
            let times = ["run_seconds", "wait_seconds", "idle_seconds"];
            let total: f64 = times.map(|name| a_vm_is_the_sum_of_its_vcpus(line, name)).iter().sum();
            assert!(total > 0.0 && a_vm_is_the_sum_of_its_vcpus(line, "exits") > 0.0);
            assert_eq!(line["vms"][0]["turn_wait_seconds"].is_null(), !known);
            assert_eq!(line["domain"]["kick_seconds"].is_null(), !known);
        }
        assert!(last["vms"].as_array().unwrap().iter().all(|vm| vm["ended"] == true));
    }
}

#[test]
fn stats_that_cannot_be_written_are_refused_before_anything_starts() {
    let _ = require_kvm!();
    let folder = folder("[[vm]]\nname = \"a\"\nimage = \"builtin:hello\"\n");
    let (status, stdout, stderr) = output(stile(folder.path(), &["run", "stile.toml", "--stats-json", "none/stats"]));
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("none/stats"), "{stderr}");
}

#[test]
fn a_vm_reaches_those_of_its_network_and_no_other() {
    let _ = require_kvm!();
    let vm = |name: &str, network: &str, guest: &str| {
        format!("[[vm]]\nname = \"{name}\"\nnetwork = \"{network}\"\nimage = \"builtin:{guest}\"\n")
    };
    let client = "netbench-client\"\ncmdline = \"server=10.0.0.1 seed=1";
    // On each network the client asks port 1. On the second network, no server listens there.
    let vms = [
        vm("server", "blue", "netbench-server"),
        vm("friend", "blue", client),
        vm("other", "red", "idle"),
        vm("stranger", "red", client),
    ];
    let folder = folder(&vms.concat());
    let run = ["run", "stile.toml", "--stats=0.1", "--stats-json", "s", "--for", "60"];
    let mut child = stile(folder.path(), &run).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let [mut server, mut friend, mut stranger] = [0; 3];
    while child.try_wait().unwrap().is_none() && friend < 1000 {
        sleep(Duration::from_millis(100));
        let Some(last) = json_lines(&folder.path().join("s")).pop() else { continue };
        [server, friend, stranger] = [0, 1, 3].map(|vm| last["vms"][vm]["exits"].as_u64().unwrap());
    }
    let _ = kill_process(Pid::from_child(&child), Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // Each request takes both an exit at least, and a client without an answer asks seldom.
    assert!(server > friend / 2 && stranger < friend / 2, "{server} {friend} {stranger}");
}
