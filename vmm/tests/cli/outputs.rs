//! Outputs that cannot be written: full, closed, or in missing folders; and runs whose reader goes away.

use super::program::{PROGRAM, folder, output, stile};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use stile_tests::{require_kvm, skip};

/// A VM that prints a line, so that there is something to read, and two vCPUs that run without end.
const GREETER_AND_HOGS: &str = "[host]\npcpus = [0]\n[[vm]]\nname = \"sign\"\nimage = \"builtin:hello\"\n\
                                [[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\nvcpus = 2\n";

/// Exit code and the words of standard error of a command whose standard output is full.
fn into_a_full_disk(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
    let mut command = stile(folder, arguments);
    let child = command.stdout(full).stderr(Stdio::piped()).spawn().expect("cargo built the program");
    let ended = child.wait_with_output().expect("it was started");
    let stderr = String::from_utf8_lossy(&ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    (ended.status.code(), stderr)
}

#[test]
fn a_full_standard_output_is_told_and_exits_1() {
    let folder = folder("[[vm]]\nname = \"a\"\nimage = \"builtin:hello\"\n");
    let compare = "sim scenario.toml --out report --force";
    let scenario = "suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [2]\npcpus = 1\nduration = 0.01\nreps = 1\n";
    fs::write(folder.path().join("scenario.toml"), scenario).unwrap();
    let (status, _, stderr) = output(stile(folder.path(), &compare.split(' ').collect::<Vec<_>>()));
    assert_eq!(status, Some(0), "{stderr}");
    for command in
        [compare, "show report", "show report --markdown", "check-report report", "check stile.toml", "schema"]
    {
        let (status, stderr) = into_a_full_disk(folder.path(), &command.split(' ').collect::<Vec<_>>());
        assert_eq!(status, Some(1), "{command}: {stderr}");
        assert!(stderr.contains("cannot write to standard output: No space left"), "{command}: {stderr}");
    }
}

#[test]
fn a_run_into_a_full_standard_output_ends_its_guests_and_finishes_its_recording() {
    let _ = require_kvm!();
    let folder = folder(GREETER_AND_HOGS);
    for more in [&[][..], &["--stats=0.05"], &["--record", "run.rec"]] {
        let arguments = [&["run", "stile.toml", "--for", "0.2"], more].concat();
        let (status, stderr) = into_a_full_disk(folder.path(), &arguments);
        if stderr.contains("feature `trace`") {
            return skip("built without the feature `trace`");
        }
        assert_eq!(status, Some(1), "{more:?}: {stderr}");
        assert!(stderr.contains("cannot write to standard output"), "{more:?}: {stderr}");
    }
    replays(folder.path(), true);
}

/// All commands for recordings read `run.rec`. Its vCPUs have names, or the commands say that it ended early.
#[track_caller]
fn replays(folder: &Path, finished: bool) {
    let vcpu = if finished { "a/1" } else { "v1" };
    for arguments in [&["replay", "run.rec"][..], &["why", vcpu, "run.rec"], &["trace", "run.rec"]] {
        let (status, stdout, stderr) = output(stile(folder, arguments));
        assert_eq!(status, Some(0), "{arguments:?}: {stderr}");
        assert!(stdout.contains(vcpu), "{arguments:?}: {stdout}");
        assert_eq!(stderr.contains("run.rec ended early, at 0."), !finished, "{arguments:?}: {stderr}");
    }
}

/// A recorded run, once its first guest has printed a line. Its output is read no further if the caller drops it.
fn recorded_run(folder: &Path) -> (Child, impl Iterator<Item = String>) {
    let arguments = ["run", "stile.toml", "--record", "run.rec", "--force", "--stats=0.05"];
    let mut child =
        stile(folder, &arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("cargo built it");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let first = lines.next();
    assert!(first.is_some(), "{child:?}");
    (child, lines)
}

#[test]
fn a_recorded_run_whose_reader_goes_away_finishes_its_recording_and_ends_by_sigpipe() {
    let _ = require_kvm!();
    if !stile_sched::ledger::RECORDS {
        return skip("built without the feature `trace`");
    }
    let folder = folder(GREETER_AND_HOGS);
    let (mut child, lines) = recorded_run(folder.path());
    drop(lines);
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::PIPE.as_raw()));
    replays(folder.path(), true);
}

#[test]
fn a_recorded_run_that_is_terminated_finishes_its_recording_and_a_killed_ones_is_read_as_far_as_it_goes() {
    let _ = require_kvm!();
    if !stile_sched::ledger::RECORDS {
        return skip("built without the feature `trace`");
    }
    let folder = folder(GREETER_AND_HOGS);
    for (signal, code) in [(Signal::TERM, Some(130)), (Signal::KILL, None)] {
        let (mut child, mut lines) = recorded_run(folder.path());
        // Some lines later there is something in the file.
        let before = fs::metadata(folder.path().join("run.rec")).unwrap().len();
        while fs::metadata(folder.path().join("run.rec")).unwrap().len() == before {
            assert!(lines.next().is_some());
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        lines.for_each(drop);
        assert_eq!(child.wait().unwrap().code(), code);
        replays(folder.path(), signal == Signal::TERM);
    }
}

#[test]
fn a_path_that_cannot_be_written_is_refused_before_anything_runs() {
    let _ = require_kvm!();
    let folder = folder("[host]\npcpus = [0]\n[[vm]]\nname = \"a\"\nimage = \"builtin:hello\"\n");
    let scenario = "suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [2]\npcpus = 1\n";
    fs::write(folder.path().join("scenario.toml"), scenario).unwrap();
    for option in ["--record", "--console", "--stats-json"] {
        let (status, stdout, stderr) = output(stile(folder.path(), &["run", "stile.toml", option, "/nonexistent/x"]));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{option}: {stderr}");
        assert!(stderr.contains("/nonexistent/x") || stderr.contains("feature `trace`"), "{option}: {stderr}");
    }
    let (status, stdout, stderr) = output(stile(folder.path(), &["sim", "scenario.toml", "--out", "/proc/x"]));
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("--out: cannot make the folder /proc/x"), "{stderr}");
    let run = ["run", "stile.toml", "--record", "run.rec"];
    if stile_sched::ledger::RECORDS {
        assert_eq!(output(stile(folder.path(), &run)).0, Some(0));
        let whole = fs::read(folder.path().join("run.rec")).unwrap();
        for (out, told) in
            [("/nonexistent/x", "--out: cannot write /nonexistent/x"), ("run.rec", "the place of the recording")]
        {
            let (status, stdout, stderr) = output(stile(folder.path(), &["trace", "run.rec", "--out", out]));
            assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
            assert!(stderr.contains(told), "{stderr}");
        }
        assert!(fs::read(folder.path().join("run.rec")).unwrap() == whole);
        fs::write(folder.path().join("trace.json"), "kept").unwrap();
        let trace = ["trace", "run.rec", "--out", "trace.json"];
        for (command, told) in [(&run[..], "--record: run.rec exists"), (&trace, "--out: trace.json exists")] {
            let (status, stdout, stderr) = output(stile(folder.path(), command));
            assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
            assert!(stderr.contains(told) && stderr.contains("--force"), "{stderr}");
        }
        assert!(fs::read(folder.path().join("run.rec")).unwrap() == whole);
        assert_eq!(fs::read_to_string(folder.path().join("trace.json")).unwrap(), "kept");
        for command in [&[&run[..], &["--force"]].concat(), &[&trace[..], &["--force"]].concat()] {
            assert_eq!(output(stile(folder.path(), command)).0, Some(0));
        }
        assert!(fs::read_to_string(folder.path().join("trace.json")).unwrap().contains("traceEvents"));
    }
}

#[test]
fn a_reader_that_goes_away_ends_a_command_by_sigpipe() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let status = Command::new(PROGRAM).arg("schema").stdin(Stdio::null()).stdout(writer).status().unwrap();
    assert_eq!(status.signal(), Some(Signal::PIPE.as_raw()));
}
