//! The program as a user meets it: what it prints and how it exits.
//!
//! The output of each run is read to its end, which comes only when every process that could write to it has gone: so
//! none of these tests leaves anything running.

use rustix::process::{Pid, Signal, kill_process};
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

/// Exit code, standard output, and the words of standard error: messages are broken into lines by width.
fn output(mut command: Command) -> (Option<i32>, String, String) {
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
        (["--vcpus", "0"], "--vcpus"),
        (["--policies", "none"], "rsdl"),
        (["--duration", "0"], "seconds"),
    ] {
        let (status, stdout, stderr) = output(stile(folder.path(), &[&["compare", "ticket"], &arguments[..]].concat()));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{arguments:?}: {stderr}");
        assert!(stderr.contains(words), "{arguments:?}: {stderr}");
    }
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
fn without_permission_for_kvm_the_remedy_is_told_and_the_exit_code_is_3() {
    if !rustix::process::getuid().is_root() {
        return skip("only root can become a user without permission for KVM");
    }
    let folder = folder("[[vm]]\nname = \"a\"\nimage = \"builtin:hello\"\n");
    let program = folder.path().join("stile");
    fs::copy(PROGRAM, &program).unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    for arguments in [["run", "stile.toml"], ["compare", "hogs"]] {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(folder.path()).stdin(Stdio::null()).uid(NOBODY).gid(NOBODY);
        let (status, stdout, stderr) = output(command);
        if status == Some(0) {
            return skip("KVM is open to all users here");
        }
        assert_eq!((status, stdout.as_str()), (Some(3), ""), "{stderr}");
        assert!(stderr.contains("/dev/kvm"), "{stderr}");
    }
}
