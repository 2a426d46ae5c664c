//! Samples are kept when the report of a comparison cannot be written, or a disk is full half way.
//!
//! A limit on the length of files stands for a full disk.

use super::program::{Ended, PROGRAM, output, stile};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use stile_tests::require_kvm;
use tempfile::TempDir;

/// The shell that sets the limit (units: 512 bytes), and makes writes beyond it fail instead of ending the program.
const LIMITED: &str = "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"";

/// A comparison on a disk that accepts files of 8 KiB.
fn on_a_full_disk(folder: &Path, [suite, vcpus, reps]: [&str; 3]) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", LIMITED, PROGRAM]);
    command.args(["compare", suite, "--vcpus", vcpus, "--duration", "0.05", "--out", "report", "--reps", reps]);
    command.current_dir(folder).stdin(Stdio::null());
    output(command)
}

/// The samples in the folder's journal, each whole.
fn kept(folder: &Path) -> Vec<Value> {
    let text = fs::read_to_string(folder.join("report/raw/samples.jsonl")).expect("samples are kept");
    text.lines().map(|line| serde_json::from_str(line).expect("each line is a sample")).collect()
}

#[test]
fn a_disk_that_is_full_half_way_ends_the_run_with_a_table_of_what_was_measured() {
    let _ = require_kvm!();
    let folder = TempDir::new().unwrap();
    let (status, stdout, stderr) = on_a_full_disk(folder.path(), ["ticket", "4", "6"]);
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stdout.contains("4 vCPUs"), "{stdout}");
    assert!(stderr.contains("cannot write report/raw/samples.jsonl; make room there"), "{stderr}");
    assert!(stderr.contains("File too large"), "{stderr}");
    let samples = kept(folder.path());
    assert!((1..12).contains(&samples.len()), "{}", samples.len());
}

#[test]
fn a_report_that_does_not_fit_is_told_with_the_place_of_its_samples() {
    let _ = require_kvm!();
    let folder = TempDir::new().unwrap();
    let (status, stdout, stderr) = on_a_full_disk(folder.path(), ["hogs", "1", "1"]);
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stdout.contains("1 vCPU") && !stdout.contains("report:"), "{stdout}");
    assert!(stderr.contains("every sample is in report/raw/samples.jsonl"), "{stderr}");
    assert_eq!(kept(folder.path()).len(), 2);
}

#[test]
fn a_run_that_is_ended_before_anything_was_measured_leaves_the_earlier_report() {
    let folder = TempDir::new().unwrap();
    let long = ["compare", "hogs", "--sim", "--vcpus", "64", "--reps", "1", "--out", "report", "--force", "--duration"];
    let (status, _, stderr) = output(stile(folder.path(), &[&long[..], &["0.05"]].concat()));
    assert_eq!(status, Some(0), "{stderr}");
    let files = ["report/report.json", "report/report.html", "report/raw/samples.jsonl"];
    let read = || files.map(|file| fs::read_to_string(folder.path().join(file)).unwrap());
    let before = read();
    let mut run = stile(folder.path(), &[&long[..], &["3600"]].concat());
    let mut run = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    // Once it has printed its plan, it listens to signals.
    let (mut said, mut stderr) = (String::new(), BufReader::new(run.stderr.take().unwrap()));
    stderr.read_line(&mut said).unwrap();
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(130), "{said}");
    assert_eq!(read(), before);
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let _ = require_kvm!();
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let run = stile(folder.path(), &["compare", "hogs", "--out", "file/report"]);
    let (status, stdout, stderr) = output(run);
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("file/report") && stderr.contains("--out"), "{stderr}");
}
