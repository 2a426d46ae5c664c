//! The program as a user meets it: what it prints and how it exits.
//!
//! The output of each run is read to its end, which comes only when every process that could write to it has gone: so
//! none of these tests leaves anything running.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use stile::vm::image::forge::{Piece, code, elf};
use stile_abi::IMAGE_MIN_GPA;
use stile_tests::{require_kvm, skip};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_stile");
/// The user that owns nothing.
const NOBODY: u32 = 65534;

/// A folder with a configuration in it.
fn folder(config: &str) -> TempDir {
    let folder = TempDir::new().expect("a test may write temporary files");
    fs::write(folder.path().join("stile.toml"), config).expect("as above");
    folder
}

fn stile(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

/// How a run ended: exit code, standard output and error.
type Ended = (Option<i32>, String, String);

/// Exit code, standard output, and the words of standard error: messages are broken into lines by width.
fn output(mut command: Command) -> Ended {
    let Output { status, stdout, stderr } = command.output().expect("cargo built the program");
    let stderr = String::from_utf8_lossy(&stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    (status.code(), String::from_utf8_lossy(&stdout).into_owned(), stderr)
}

/// Both `check` and `run` refuse the folder's configuration with exit code 2 and a message that holds all of these, and
/// start nothing.
#[track_caller]
fn refused(folder: &Path, told: &[&str]) {
    for command in ["check", "run"] {
        let (status, stdout, stderr) = output(stile(folder, &[command, "stile.toml"]));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{command}: {stderr}");
        for words in told {
            assert!(stderr.contains(words), "{command}: no `{words}` in: {stderr}");
        }
    }
}

#[track_caller]
fn refused_vm(keys: &str, told: &[&str]) {
    refused(folder(&format!("[[vm]]\nname = \"a\"\n{keys}\n")).path(), told);
}

#[track_caller]
fn refused_image(file: &[u8], told: &[&str]) {
    let folder = folder("[[vm]]\nname = \"a\"\nimage = \"a.elf\"\n");
    fs::write(folder.path().join("a.elf"), file).expect("the folder is this test's own");
    refused(folder.path(), &[told, &["VM a", "a.elf"]].concat());
}

#[test]
fn bad_images_are_refused_with_what_is_wrong_with_them() {
    let text = |start| Piece { start, bytes: vec![0x90; 16], size: 16, flags: 5 };
    let (whole, at) = (code(&[0x90; 16]), IMAGE_MIN_GPA);
    let mut foreign = whole.clone();
    // e_machine of AArch64.
    foreign[18] = 183;
    refused_image(b"#!/bin/sh\n", &["ELF"]);
    refused_image(&whole[..whole.len() - 1], &["truncated", "segment 0"]);
    refused_image(&foreign, &["machine type 183", "x86-64"]);
    refused_image(&elf(at, &[text(at), text(at + 8)]), &["0x200000", "0x200008", "overlap"]);
    refused_image(&elf(0x1000, &[text(0x1000)]), &["segment 0", "0x1000..0x1010", "outside 0x200000"]);
    refused_image(&elf(0, &[text(at)]), &["entry point 0x0"]);
}

#[test]
fn an_image_that_is_not_there_is_refused_at_its_line() {
    refused_vm("image = \"none.elf\"", &["stile.toml:3:9", "vm[0].image", "none.elf"]);
    refused_vm("image = \"builtin:none\"", &["stile.toml:3:9", "none", "hello"]);
}

#[test]
fn values_out_of_range_are_refused_at_their_line_with_the_range() {
    let vm = |key: &str, told: &[&str]| refused_vm(&format!("image = \"builtin:hello\"\n{key}"), told);
    vm("vcpus = 0", &["stile.toml:4:9", "vm[0].vcpus", "0 is out of range", "1 to 1024"]);
    vm("vcpus = 2000", &["stile.toml:4:9", "vm[0].vcpus", "2000 is out of range", "1 to 1024"]);
    vm("memory = \"0\"", &["stile.toml:4:10", "vm[0].memory", "4M"]);
    vm("memory = 0", &["stile.toml:4:10", "vm[0].memory"]);
    vm("vcpu = 1", &["stile.toml:4:1", "vcpu", "vcpus"]);
}

#[test]
fn pcpus_that_do_not_exist_are_refused_with_those_that_do() {
    let config = "[host]\npcpus = [4095]\n[[vm]]\nname = \"a\"\nimage = \"builtin:hello\"\n";
    refused(folder(config).path(), &["stile.toml:2:10", "host.pcpus[0]", "CPU 4095", "accepted:"]);
}

#[test]
fn memory_too_small_for_its_vcpus_is_refused_with_what_is_needed() {
    refused_vm("image = \"builtin:hello\"\nvcpus = 1024\nmemory = \"16M\"", &["VM a", "1024 vCPU(s)", "are needed"]);
}

#[test]
fn a_sound_configuration_is_told_with_each_vms_weight_and_wait_bound() {
    let vms = "[[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\nvcpus = 2\n\
               [[vm]]\nname = \"b\"\nimage = \"builtin:hog\"\nnice = 5\ncount = 2\n";
    let told = |policy: &str| {
        let config = format!("[host]\npcpus = [0]\n[policy]\n{policy}\n{vms}");
        let (status, stdout, stderr) = output(stile(folder(&config).path(), &["check", "stile.toml"]));
        assert_eq!(status, Some(0), "{stderr}");
        stdout
    };
    // A rotation gives 120 ms to each vCPU of a and 45 ms to each of b.
    let rsdl = told("yield = \"none\"");
    assert!(rsdl.contains("3 VMs with 4 vCPUs on pCPUs 0 under rsdl+none\n"), "{rsdl}");
    assert!(
        rsdl.contains("  a: 1 VM with 2 vCPUs, class normal, nice 0, 72.7 % of all weights each, wait bound: "),
        "{rsdl}"
    );
    assert!(
        rsdl.contains("  b: 2 VMs with 1 vCPU, class normal, nice 5, 13.6 % of all weights each, wait bound: "),
        "{rsdl}"
    );
    assert!(!rsdl.contains("bound: none") && !rsdl.contains("bound: 0"), "{rsdl}");
    assert_eq!(told("algorithm = \"host\"").matches("wait bound: none").count(), 2);
    for (policy, then) in [
        ("", "waits longer than its bound is told on stderr\n"),
        ("on_starvation = \"fallback\"", "is told on stderr, and all vCPUs go over to the host's scheduler\n"),
        ("starvation_bound = \"2s\"", "waits longer than its bound, or 2s without one, is told on stderr\n"),
        ("algorithm = \"o1\"\nstarvation_bound = \"2s\"", "a vCPU that waits longer than 2s is told on stderr\n"),
        ("algorithm = \"o1\"", "nobody watches: o1 promises nothing, and `starvation_bound` is none\n"),
        ("algorithm = \"host\"", "nobody watches, the host's scheduler decides\n"),
    ] {
        let text = told(policy);
        assert!(text.contains("  on starvation: ") && text.ends_with(then), "{text}");
    }
}

#[test]
fn a_cap_is_told_with_two_periods_more_to_wait_and_refused_where_nothing_would_keep_to_it() {
    let config = |policy: &str| {
        let vm = "[[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\ncap = 0.5\ncap_period = \"50ms\"\n";
        folder(&format!("[host]\npcpus = [0]\n[policy]\nalgorithm = \"{policy}\"\n{vm}"))
    };
    let (status, stdout, stderr) = output(stile(config("rsdl").path(), &["check", "stile.toml"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("nice 0, cap 0.5 CPUs each over 50ms, 100.0 % of all weights"), "{stdout}");
    assert!(stdout.contains("wait bound: 100 ms"), "{stdout}");
    for policy in ["host", "host-noyield"] {
        refused(config(policy).path(), &["stile.toml:8:7", "vm[0].cap", policy, "keeps to no cap", "cpu.max"]);
    }
}

#[test]
fn a_configuration_without_vms_or_none_at_all_is_refused() {
    refused(folder("").path(), &["[[vm]]"]);
    let (status, stdout, stderr) = output(stile(folder("").path(), &["run", "other.toml"]));
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("other.toml"), "{stderr}");
}

#[test]
fn one_bad_vm_keeps_the_good_ones_from_starting() {
    let config = "[[vm]]\nname = \"good\"\nimage = \"builtin:hello\"\n[[vm]]\nname = \"bad\"\nimage = \"bad.elf\"\n";
    let folder = folder(config);
    fs::write(folder.path().join("bad.elf"), "").unwrap();
    refused(folder.path(), &["VM bad"]);
}

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
    ] {
        let (status, stdout, stderr) = output(stile(folder.path(), &[&["compare", "ticket"], &arguments[..]].concat()));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }
    let timed = stile(folder.path(), &["compare", "volano", "--duration", "1"]);
    let (status, stdout, stderr) = output(timed);
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "work that has an end has no window: {stderr}");
    assert!(stderr.contains("messages=N"), "{stderr}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "a report of nothing");
}

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
    assert_eq!(stdout, "[good] hello from 1 vCPU\n[good] exit code 0\n");
}

#[test]
fn a_time_limit_ends_guests_that_would_run_for_good() {
    let _ = require_kvm!();
    let folder = folder("[[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\nvcpus = 3\n");
    let (status, stdout, stderr) = output(stile(folder.path(), &["run", "stile.toml", "--for", "0.1"]));
    assert_eq!((status, stdout.as_str(), stderr.as_str()), (Some(0), "[a] stopped\n", ""));
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

/// Every line of JSON that a run has left.
fn json_lines(file: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(file).expect("the run has written it");
    lines.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
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
        // Two tables at the end, in which the vCPUs are told too.
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

/// The folder and output of a short comparison.
#[track_caller]
fn compared(suite: &str) -> (TempDir, String) {
    let folder = TempDir::new().expect("a test may write temporary files");
    let compare = format!("compare {suite} --policies host,rsdl --reps 1 --duration 0.05 --out report");
    let (status, stdout, stderr) = output(stile(folder.path(), &compare.split(' ').collect::<Vec<_>>()));
    assert_eq!(status, Some(0), "{suite}: {stderr}");
    (folder, stdout)
}

#[test]
fn a_comparison_leaves_a_report_that_its_own_check_accepts() {
    let _ = require_kvm!();
    for suite in ["hogs --vcpus 1", "threeway --vcpus 6", "weights --vcpus 2 --pcpus 0"] {
        let (folder, stdout) = compared(suite);
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
        let (folder, _) = compared(suite);
        let report = fs::read_to_string(folder.path().join("report/report.json")).unwrap();
        for metric in metrics {
            assert!(report.contains(&format!("\"{metric}\"")), "{suite}: no {metric}");
        }
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

/// The program as a user without permission for KVM runs it, in a folder with this configuration; `None` if that cannot be.
fn without_kvm(config: &str, arguments: &[&str]) -> Option<(TempDir, Ended)> {
    if !rustix::process::getuid().is_root()
        || fs::metadata("/dev/kvm").is_ok_and(|kvm| kvm.permissions().mode() & 6 != 0)
    {
        return None;
    }
    let folder = folder(config);
    let program = folder.path().join("stile");
    fs::copy(PROGRAM, &program).expect("a test may write temporary files");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).expect("as above");
    let mut command = Command::new(&program);
    command.args(arguments).current_dir(folder.path()).stdin(Stdio::null()).uid(NOBODY).gid(NOBODY);
    Some((folder, output(command)))
}

#[test]
fn without_permission_for_kvm_the_remedy_is_told_and_the_exit_code_is_3() {
    for arguments in [&["run", "stile.toml"][..], &["doctor", "--costs"]] {
        let config = "[[vm]]\nname = \"a\"\nimage = \"builtin:hello\"\n";
        let Some((_folder, (status, stdout, stderr))) = without_kvm(config, arguments) else {
            return skip("only root can become a user without permission for KVM, where there is such a user");
        };
        assert_eq!((status, stdout.as_str()), (Some(3), ""), "{stderr}");
        assert!(stderr.contains("/dev/kvm"), "{stderr}");
    }
}

#[test]
fn without_permission_for_kvm_a_comparison_is_simulated_and_says_so_everywhere() {
    let compare = ["compare", "ticket", "--vcpus", "4", "--reps", "1", "--duration", "0.05", "--out", "report"];
    let Some((folder, (status, stdout, stderr))) = without_kvm("", &compare) else {
        return skip("only root can become a user without permission for KVM, where there is such a user");
    };
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("/dev/kvm") && stderr.contains("simulated"), "{stderr}");
    assert!(stdout.starts_with("simulated ticket") && stdout.contains("no guest ran"), "{stdout}");
    is_marked(folder.path());
}

/// The report in this folder says of every plot and table that it is simulated.
#[track_caller]
fn is_marked(folder: &Path) {
    let page = fs::read_to_string(folder.join("report/report.html")).expect("a page was written");
    for caption in page.split("<figcaption>").skip(1) {
        let (caption, _) = caption.split_once("</figcaption>").expect("a caption ends");
        assert!(caption.contains("simulated"), "{caption}");
    }
    assert!(page.contains("<h1>Simulated") && page.contains("<title>stile: simulated"));
    let report = fs::read_to_string(folder.join("report/report.json")).expect("a report was written");
    assert!(report.contains("\"simulated\": true"));
}

#[test]
fn a_scenario_is_simulated_alike_each_time_and_its_events_are_kept() {
    let scenario =
        "suite = \"mixed\"\npolicies = [\"host\", \"rsdl\"]\nvcpus = [6]\npcpus = 3\nduration = 0.05\nreps = 2\n";
    let folder = folder("");
    fs::write(folder.path().join("scenario.toml"), scenario).unwrap();
    let events = |name: &str| {
        let arguments = ["sim", "scenario.toml", "--out", name, "--record"];
        let (status, stdout, stderr) = output(stile(folder.path(), &arguments));
        assert_eq!(status, Some(0), "{stderr}");
        assert!(stdout.starts_with("simulated mixed"), "{stdout}");
        fs::read(folder.path().join(name).join("raw/mixed-rsdl-6-round-1.rec")).unwrap()
    };
    let first = events("report");
    assert!(first.len() > 10_000 && first == events("again"));
    let (status, stdout, stderr) = output(stile(folder.path(), &["replay", "again/raw/mixed-rsdl-6-round-0.rec"]));
    assert_eq!(status, Some(0), "{stderr}{stdout}");
    is_marked(folder.path());
    let (status, stdout, stderr) = output(stile(folder.path(), &["check-report", "report/report.json"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("2 rounds of mixed"), "{stdout}");
}

#[test]
fn a_scenario_that_cannot_be_used_is_refused_with_the_place_or_what_is_accepted() {
    let folder = folder("");
    for (scenario, told) in [
        ("suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [4]\npcpus = 2\nsed = 1\n", "unknown field `sed`"),
        ("suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [4]\npcpus = 600\n", "1 to 512"),
        ("suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [4]\npcpus = 2\ncosts = \"none.json\"\n", "none.json"),
    ] {
        fs::write(folder.path().join("scenario.toml"), scenario).unwrap();
        let (status, stdout, stderr) = output(stile(folder.path(), &["sim", "scenario.toml"]));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains(told), "no `{told}` in: {stderr}");
    }
}

#[test]
fn measured_costs_are_read_back_by_a_simulation() {
    let _ = require_kvm!();
    let folder = folder("");
    let (status, stdout, stderr) = output(stile(folder.path(), &["doctor", "--costs"]));
    if stderr.contains("one CPU only") {
        return skip("kicks cannot be measured on one CPU");
    }
    assert_eq!(status, Some(0), "{stderr}");
    fs::write(folder.path().join("costs.json"), stdout).unwrap();
    let scenario = "suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [4]\npcpus = 2\nduration = 0.05\nreps = 1\n";
    fs::write(folder.path().join("scenario.toml"), format!("{scenario}costs = \"costs.json\"\n")).unwrap();
    let (status, stdout, stderr) = output(stile(folder.path(), &["sim", "scenario.toml"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.starts_with("simulated ticket"), "{stdout}");
}

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
    assert!(why["longest"]["culprit"].is_string() || why["longest"]["cause"] == "kick", "{why}");
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
    let run = ["run", "stile.toml", "--for", "0.5", "--record", "run.rec"];
    let (status, _, stderr) = output(stile(folder.path(), &run));
    if stderr.contains("feature `trace`") {
        return skip("built without the feature `trace`");
    }
    assert_eq!(status, Some(0), "{stderr}");
    let (status, stdout, stderr) = output(stile(folder.path(), &["replay", "run.rec"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("all the same"), "{stdout}");
    let (_, stdout, stderr) = output(stile(folder.path(), &["why", "hog/1", "run.rec"]));
    assert!(stdout.contains("cause: cap: the VM of hog/1 had used up what its cap allows"), "{stdout}{stderr}");
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
