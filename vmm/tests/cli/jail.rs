//! The jail of runs and comparisons: that they work in it, and that their threads are in it.

use super::program::{folder, output, stile};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;
use stile_tests::require_kvm;

/// Two VMs that compute until they are ended.
const HOGS: &str = "[[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\nvcpus = 2\ncount = 2\n";

/// The status of each thread of a process, by the thread's name.
fn threads(process: u32) -> BTreeMap<String, String> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let status = tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
    let named = |status: String| {
        let name = status.lines().next()?.strip_prefix("Name:")?.trim().to_owned();
        Some((name, status.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    status.filter_map(named).collect()
}

/// A run that has printed a line, so that all of its threads are there, and is ended by its drop.
struct Run(Child);

impl Run {
    fn start(folder: &Path, more: &[&str], until: impl Fn(&BTreeMap<String, String>) -> bool) -> Self {
        let arguments = [&["run", "stile.toml"], more].concat();
        let child = stile(folder, &arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("cargo built the program");
        let run = Self(child);
        for _ in 0..600 {
            if until(&threads(run.0.id())) {
                return run;
            }
            sleep(Duration::from_millis(50));
        }
        panic!("{:?}", threads(run.0.id()));
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // A run that has ended by itself fails the assertions before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Number of filters of a thread.
fn filters(status: &str) -> u32 {
    let mut words = status.split(' ').skip_while(|word| *word != "Seccomp_filters:").skip(1);
    words.next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

#[test]
fn each_thread_of_a_run_is_in_the_jail_with_a_list_of_its_own() {
    let _ = require_kvm!();
    for (mechanism, runs_vcpus) in [("rsdl:executors", "pcpu"), ("rsdl:leases", "vcpu"), ("host", "vcpu")] {
        let folder = folder(HOGS);
        let outputs = ["--policy", mechanism, "--stats", "--stats-json", "j", "--console", "c"];
        let record: &[&str] = if mechanism == "host" { &[] } else { &["--record", "r"] };
        let run = Run::start(folder.path(), &[&outputs, record].concat(), |threads| {
            threads.get("stile").is_some_and(|status| filters(status) == 3)
                && threads.keys().any(|name| name.starts_with(runs_vcpus))
        });
        let threads = threads(run.0.id());
        let has = |start: &str| threads.keys().any(|name| name.starts_with(start));
        assert!(has(runs_vcpus) && (has("recorder") || record.is_empty()), "{threads:?}");
        for (name, status) in &threads {
            assert!(status.contains("NoNewPrivs: 1") && status.contains("Seccomp: 2"), "{mechanism} {name}: {status}");
            assert_eq!(filters(status), 3, "{mechanism} {name}: {status}");
        }
    }
}

#[test]
fn without_the_jail_threads_are_unbound_and_a_warning_says_so() {
    let _ = require_kvm!();
    let folder = folder(HOGS);
    let run = Run::start(folder.path(), &["--no-jail"], |threads| threads.keys().any(|name| name.starts_with("pcpu")));
    for (name, status) in threads(run.0.id()) {
        assert!(status.contains("Seccomp: 0"), "{name}: {status}");
    }
    drop(run);
    let (status, _, stderr) = output(stile(folder.path(), &["run", "stile.toml", "--for", "0.05", "--no-jail"]));
    assert!(status == Some(0) && stderr.contains("warning: --no-jail: nothing bounds"), "{stderr}");
}

#[test]
fn a_jailed_run_writes_its_outputs_wherever_they_are_named() {
    let _ = require_kvm!();
    let folder = folder("[[vm]]\nname = \"a\"\nimage = \"builtin:hello\"\nvcpus = 2\n");
    fs::create_dir(folder.path().join("out")).unwrap();
    let outputs = ["--record", "out/r", "--console", "out/c", "--stats-json", "out/j", "--stats"];
    let (status, _, stderr) = output(stile(folder.path(), &[&["run", "stile.toml"][..], &outputs].concat()));
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(fs::read_to_string(folder.path().join("out/c")).unwrap().contains("hello from 2 vCPUs"));
    for name in ["out/r", "out/j"] {
        assert!(fs::metadata(folder.path().join(name)).unwrap().len() > 0, "{name}");
    }
    let (status, _, stderr) = output(stile(folder.path(), &["replay", "out/r"]));
    assert_eq!(status, Some(0), "{stderr}");
}

#[test]
fn a_run_that_falls_back_to_the_hosts_scheduler_stays_in_the_jail() {
    let _ = require_kvm!();
    // 6 ms for each of 80 vCPUs, on two pCPUs or on a few more.
    let config = "[policy]\nalgorithm = \"freelist\"\nstarvation_bound = \"100ms\"\non_starvation = \"fallback\"\n\
                  [[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\nvcpus = 8\ncount = 10\n";
    let folder = folder(config);
    let (status, _, stderr) = output(stile(folder.path(), &["run", "stile.toml", "--for", "4"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("the host's scheduler decides from now on"), "no fallback: {stderr}");
}

#[test]
fn comparisons_run_in_the_jail_and_write_their_reports() {
    let _ = require_kvm!();
    let folder = folder("");
    let compare = ["compare", "ticket", "--vcpus", "2", "--reps", "1", "--duration", "0.05", "--record"];
    for (out, more) in [("in", &[][..]), ("without", &["--no-jail"][..])] {
        let files = ["--out", out, "--junit", "cases.xml"];
        let (status, _, stderr) = output(stile(folder.path(), &[&compare[..], &files, more].concat()));
        assert_eq!(status, Some(0), "{stderr}");
        assert_eq!(stderr.contains("warning: --no-jail"), !more.is_empty(), "{stderr}");
        let (status, _, stderr) = output(stile(folder.path(), &["check-report", out]));
        assert_eq!(status, Some(0), "{stderr}");
        assert!(fs::metadata(folder.path().join("cases.xml")).unwrap().len() > 0);
    }
}

#[test]
fn the_doctor_tells_what_the_kernel_offers_for_the_jail() {
    let (_, stdout, _) = output(stile(Path::new("/"), &["doctor"]));
    assert!(stdout.lines().any(|line| line.contains(" jail ") && line.contains("system calls")), "{stdout}");
}
