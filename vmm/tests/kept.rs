//! What was measured is kept when the report of a comparison cannot be written, or a disk is full half way.
//!
//! A full disk is played by a limit on the length of files, under which the program runs.

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use stile_tests::require_kvm;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_stile");
/// The shell that sets the limit (units: 512 bytes), and has writes beyond it fail instead of ending the program.
const LIMITED: &str = "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"";

/// Exit code, standard output, and the words of standard error.
fn ended(mut command: Command, folder: &Path) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .expect("there is a shell, and cargo built the program");
    let stderr = String::from_utf8_lossy(&stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    (status.code(), String::from_utf8_lossy(&stdout).into_owned(), stderr)
}

/// A comparison on a disk that takes files of 8 KiB.
fn on_a_full_disk(folder: &Path, [suite, vcpus, reps]: [&str; 3]) -> (Option<i32>, String, String) {
    let mut command = Command::new("sh");
    command.args(["-c", LIMITED, PROGRAM]);
    command.args(["compare", suite, "--vcpus", vcpus, "--duration", "0.05", "--out", "report", "--reps", reps]);
    ended(command, folder)
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
    assert!(stdout.contains("1 vCPUs") && !stdout.contains("report:"), "{stdout}");
    assert!(stderr.contains("every sample is in report/raw/samples.jsonl"), "{stderr}");
    assert_eq!(kept(folder.path()).len(), 2);
}

#[test]
fn a_report_that_cannot_be_written_is_refused_before_anything_is_measured() {
    let _ = require_kvm!();
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["compare", "hogs", "--out", "file/report"]);
    let (status, stdout, stderr) = ended(command, folder.path());
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("file/report") && stderr.contains("--out"), "{stderr}");
}
