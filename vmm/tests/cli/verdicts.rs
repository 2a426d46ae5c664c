//! `stile compare` for a user and a build server: exit codes, refused options, messages, and closed pipes.

use super::program::{Ended, PROGRAM, output, stile};
use std::fs;
use std::io::pipe;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const SIGPIPE: i32 = 13;

/// A run with these words as arguments.
fn ended(folder: &Path, arguments: &str) -> Ended {
    output(stile(folder, &arguments.split(' ').collect::<Vec<_>>()))
}

#[test]
fn a_pipe_that_nobody_reads_ends_the_program_without_a_word() {
    for arguments in [&["schema"][..], &["--help"], &["doctor"]] {
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(PROGRAM);
        let Output { status, stderr, .. } =
            command.args(arguments).stdout(writer).stderr(Stdio::piped()).output().expect("cargo built the program");
        assert_eq!((status.signal(), String::from_utf8_lossy(&stderr).as_ref()), (Some(SIGPIPE), ""), "{arguments:?}");
    }
}

#[test]
fn the_host_against_itself_tells_how_many_ratios_include_one() {
    let folder = tempfile::tempdir().unwrap();
    let run = "compare hogs --sim --policies host,host --vcpus 4,6 --duration 0.1 --reps 5";
    let (status, stdout, stderr) = ended(folder.path(), run);
    assert_eq!(status, Some(0), "{stderr}");
    let text = stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("host#2 is host again: of ") && text.contains("include 1 in their intervals"), "{text}");
}

#[test]
fn rounds_go_on_until_intervals_are_narrow_and_the_report_says_what_ended_it() {
    let folder = tempfile::tempdir().unwrap();
    let run = "compare hogs --sim --vcpus 4 --duration 0.1 --limit 86400 --until";
    let (status, stdout, stderr) = ended(folder.path(), &format!("{run} 5"));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("Ended after 5 rounds: the interval of each"), "{stdout}");
    // Locks need many decisions: even one round of them takes longer.
    let (status, stdout, stderr) =
        ended(folder.path(), "compare ticket --sim --vcpus 4 --duration 1 --limit 0.01 --until 0.001");
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("Ended after 1 round by the limit of 10.0 ms"), "{stdout}");
}

#[test]
fn a_comparison_is_held_against_an_earlier_one_and_told_to_a_build_server() {
    let folder = tempfile::tempdir().unwrap();
    let run = "compare hogs --sim --vcpus 4 --duration 0.05 --reps 3 --out";
    let (status, _, stderr) = ended(folder.path(), &format!("{run} old"));
    assert_eq!(status, Some(0), "{stderr}");
    let (status, stdout, stderr) = ended(folder.path(), &format!("{run} new --baseline old --junit cells.xml"));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("none is worse by more than 10 %"), "{stdout}");
    let xml = fs::read_to_string(folder.path().join("cells.xml")).unwrap();
    assert!(xml.contains("classname=\"hogs.rsdl\"") && xml.contains("failures=\"0\""), "{xml}");

    // The baseline with figures ten times as good.
    let old = folder.path().join("old/report.json");
    let mut report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&old).unwrap()).unwrap();
    for cell in report["cells"].as_array_mut().unwrap().iter_mut().filter(|cell| cell["metric"] == "throughput") {
        let scaled = |value: &serde_json::Value| serde_json::json!(value.as_f64().unwrap() * 10.0);
        let all = |values: &serde_json::Value| values.as_array().unwrap().iter().map(scaled).collect::<Vec<_>>();
        (cell["median"], cell["samples"], cell["ci95"]) =
            (scaled(&cell["median"]), all(&cell["samples"]).into(), all(&cell["ci95"]).into());
    }
    fs::write(&old, report.to_string()).unwrap();
    let (status, stdout, stderr) =
        ended(folder.path(), &format!("{run} new --force --baseline old/report.json --junit cells.xml"));
    assert_eq!((status, stderr.contains("Error")), (Some(1), false), "{stderr}");
    assert!(
        stdout.contains("hogs: rsdl, 4 vCPUs: throughput") && stdout.contains("0.10 times the baseline value"),
        "{stdout}"
    );
    assert!(fs::read_to_string(folder.path().join("cells.xml")).unwrap().contains("failures=\"2\""));
}

#[test]
fn a_baseline_that_does_not_fit_is_refused_before_anything_is_run() {
    let folder = tempfile::tempdir().unwrap();
    let (status, _, stderr) = ended(folder.path(), "compare hogs --sim --vcpus 4 --duration 0.05 --reps 3 --out old");
    assert_eq!(status, Some(0), "{stderr}");
    for (name, text) in [("other.json", "{\"schema\": 99}"), ("torn.json", "{\"schema\": 1,"), ("list.json", "[]")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let against = "--sim --duration 0.05 --out new --baseline";
    for (run, told) in [
        (format!("compare probe {against} old/report.json"), "is of hogs, and this comparison of probe"),
        (format!("compare hogs --vcpus 6 {against} old/report.json"), "vcpus 4, and this comparison hogs with"),
        (format!("compare hogs --vcpus 4 --reps 2 {against} old/report.json"), "--reps 3 or more"),
        (format!("compare hogs --vcpus 4 {against} other.json"), "has schema 99"),
        (format!("compare hogs --vcpus 4 {against} torn.json"), "torn.json is not JSON"),
        (format!("compare hogs --vcpus 4 {against} list.json"), "list.json is no report: it has no `schema`"),
        (format!("compare hogs --vcpus 4 {against} none.json"), "cannot read none.json"),
        (format!("compare hogs --vcpus 4 {against} new"), "cannot read new"),
        (format!("compare hogs --vcpus 4 --policies o1,freelist {against} old"), "has none of the policies o1"),
        ("compare hogs --sim --vcpus 4 --out old --baseline ./old/report.json".into(), "would take its place"),
    ] {
        let (status, stdout, stderr) = ended(folder.path(), &run);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{run}: {stderr}");
        assert!(stderr.contains("--baseline") && stderr.contains(told), "{run}: no `{told}` in: {stderr}");
    }
    assert!(!folder.path().join("new").exists());
}

#[test]
fn a_size_that_does_not_divide_evenly_is_run_and_how_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (status, stdout, stderr) =
        ended(folder.path(), "compare pingpong --sim --vcpus 3 --duration 0.05 --reps 1 --policies host,rsdl");
    assert_eq!(status, Some(0), "{stderr}");
    let told = "Of 3 vCPUs of pingpong: 2 play in pairs, and 1 idles.";
    assert!(stderr.contains(told) && stdout.contains(&format!("Note: {told}")), "{stdout}{stderr}");
    assert!(stderr.contains("1 round of 0.1 s windows"), "{stderr}");
    assert!(stdout.contains("x (1 round, no interval)"), "{stdout}");
}

#[test]
fn a_report_keeps_no_recordings_of_an_earlier_run() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = |sizes: &str| {
        let text = "suite = \"hogs\"\npolicies = [\"rsdl\"]\npcpus = 2\nduration = 0.05\nreps = 1\nvcpus = ";
        fs::write(folder.path().join("scenario.toml"), format!("{text}{sizes}\n")).unwrap();
        let (status, _, stderr) = ended(folder.path(), "sim scenario.toml --record --out report --force");
        assert_eq!(status, Some(0), "{stderr}");
        let raw = fs::read_dir(folder.path().join("report/raw")).unwrap();
        let mut names: Vec<String> = raw.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.ends_with(".rec"));
        names.sort();
        names
    };
    assert_eq!(scenario("[4, 6]"), ["hogs-rsdl-4-round-0.rec", "hogs-rsdl-6-round-0.rec"]);
    assert_eq!(scenario("[8]"), ["hogs-rsdl-8-round-0.rec"]);
}

#[test]
fn the_suites_of_the_reports_run_one_after_the_other_into_one_report() {
    let folder = tempfile::tempdir().unwrap();
    let (status, stdout, stderr) = ended(folder.path(), "compare reports --sim --quick --duration 0.02 --reps 1");
    assert_eq!(status, Some(0), "{stderr}");
    assert!(
        stdout.starts_with("simulated netbench")
            && stdout.contains("simulated VolanoMark's chat rooms")
            && stdout.contains("no model of the guests of interactive, hackbench and entry"),
        "{stdout}"
    );
    // Without a terminal, one line for each suite and round, and no bar.
    assert_eq!(stderr.matches("round 1 of 1").count(), 2, "{stderr}");
    for size in ["--vcpus 4", "--groups 3"] {
        let (status, _, stderr) = ended(folder.path(), &format!("compare reports {size}"));
        assert_eq!(status, Some(2), "{size}: {stderr}");
        assert!(stderr.contains("sizes of its own"), "{size}: {stderr}");
    }
}

#[test]
fn a_report_that_cannot_be_written_is_told_with_its_table() {
    let folder = tempfile::tempdir().unwrap();
    // The folder exists, but the samples cannot be written there.
    fs::create_dir(folder.path().join("taken")).unwrap();
    fs::write(folder.path().join("taken/raw"), "").unwrap();
    let (status, stdout, stderr) =
        ended(folder.path(), "compare hogs --sim --vcpus 4 --duration 0.05 --reps 1 --out taken");
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stdout.contains("simulated hogs") && stderr.contains("name another one with --out"), "{stdout}{stderr}");
}

#[test]
fn what_a_run_that_fails_half_way_has_measured_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = "suite = \"hogs\"\npolicies = [\"rsdl\"]\nvcpus = [4]\npcpus = 2\nduration = 0.05\nreps = 3\n";
    fs::write(folder.path().join("scenario.toml"), scenario).unwrap();
    // The recording of the last round cannot be written.
    fs::create_dir_all(folder.path().join("report/raw/hogs-rsdl-4-round-2.rec")).unwrap();
    let (status, stdout, stderr) = ended(folder.path(), "sim scenario.toml --record --out report");
    assert_eq!(status, Some(1), "{stderr}");
    assert!(
        stderr.contains("hogs-rsdl-4-round-2.rec") && stdout.contains("hogs: failed after 2 runs"),
        "{stdout}{stderr}"
    );
    let report: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(folder.path().join("report/report.json")).unwrap()).unwrap();
    assert_eq!((&report["rounds"], &report["interrupted"]), (&2.into(), &true.into()));
}

#[test]
fn reports_are_kept_in_fresh_folders_and_replaced_only_if_forced() {
    let folder = tempfile::tempdir().unwrap();
    let run = "compare hogs --sim --vcpus 4 --duration 0.05 --reps 1";
    for report in ["stile-report", "stile-report-2"] {
        let (status, stdout, stderr) = ended(folder.path(), run);
        assert_eq!(status, Some(0), "{stderr}");
        assert!(stdout.contains(&format!("report: {report}/report.html")), "{stdout}");
    }
    fs::write(
        folder.path().join("scenario.toml"),
        "suite = \"hogs\"\npolicies = [\"rsdl\"]\nvcpus = [2]\npcpus = 1\nduration = 0.02\nreps = 1\n",
    )
    .unwrap();
    let scenario = "sim scenario.toml";
    for run in [run, scenario] {
        let before = fs::read_to_string(folder.path().join("stile-report/report.json")).unwrap();
        let (status, stdout, stderr) = ended(folder.path(), &format!("{run} --out stile-report"));
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains("a simulated report") && stderr.contains("--force"), "{stderr}");
        assert_eq!(fs::read_to_string(folder.path().join("stile-report/report.json")).unwrap(), before);
        let (status, _, stderr) = ended(folder.path(), &format!("{run} --out stile-report --force"));
        assert_eq!(status, Some(0), "{stderr}");
    }
}

#[test]
fn ratios_refer_to_the_policy_that_is_named_and_show_computes_others() {
    let folder = tempfile::tempdir().unwrap();
    let run = "compare hogs --sim --vcpus 4 --duration 0.05 --reps 3 --policies host,o1,rsdl --out report --reference";
    let (status, stdout, stderr) = ended(folder.path(), &format!("{run} o1"));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("the ratio to o1") && stdout.contains("rsdl against o1"), "{stdout}");
    let (status, stdout, stderr) = ended(folder.path(), "show report --reference rsdl+polite");
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("the ratio to rsdl") && stdout.contains("o1 against rsdl"), "{stdout}");
    for wrong in [format!("{run} goodness --force"), "show report --reference goodness".to_owned()] {
        let (status, stdout, stderr) = ended(folder.path(), &wrong);
        assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
        assert!(stderr.contains("--reference goodness") && stderr.contains("host, o1 and rsdl"), "{stderr}");
    }
}

#[test]
fn the_headline_is_drawn_alike_each_time_and_what_cannot_be_drawn_or_written_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (status, _, stderr) =
        ended(folder.path(), "compare hogs --sim --vcpus 4,6 --duration 0.05 --reps 3 --out report");
    assert_eq!(status, Some(0), "{stderr}");
    let draw = |file: &str, more: &str| {
        let (status, stdout, stderr) = ended(folder.path(), &format!("show report --svg {file}{more}"));
        assert_eq!((status, stdout.as_str()), (Some(0), ""), "{stderr}");
        fs::read_to_string(folder.path().join(file)).unwrap()
    };
    let figure = draw("a.svg", "");
    assert!(figure.starts_with("<svg") && figure.contains("simulated hogs: policies compared with host"), "{figure}");
    assert_eq!(draw("b.svg", ""), figure);
    assert_ne!(draw("c.svg", " --reference rsdl"), figure);
    let (status, _, stderr) = ended(folder.path(), "show report --svg none/a.svg");
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("none/a.svg") && stderr.contains("--svg"), "{stderr}");
}

#[test]
fn a_disturbed_baseline_is_warned_of_and_refused_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let run = "compare hogs --sim --vcpus 4 --duration 0.05 --reps 3 --out";
    let (status, _, stderr) = ended(folder.path(), &format!("{run} old"));
    assert_eq!(status, Some(0), "{stderr}");
    let old = folder.path().join("old/report.json");
    let mut report: serde_json::Value = serde_json::from_str(&fs::read_to_string(&old).unwrap()).unwrap();
    report["disturbed"]["runs"] = serde_json::json!([{"policy": "host", "disturbed": 3, "runs": 3}]);
    fs::write(&old, report.to_string()).unwrap();
    let told = "disturbed 3 of 3 runs of host";
    let (status, stdout, stderr) = ended(folder.path(), &format!("{run} new --baseline old"));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains(told) && stdout.contains("Warning: the baseline old/report.json"), "{stdout}");
    assert!(fs::read_to_string(folder.path().join("new/report.json")).unwrap().contains(told));
    let (status, stdout, stderr) = ended(folder.path(), &format!("{run} none --strict-baseline --baseline old"));
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("--strict-baseline"), "{stderr}");
    assert!(!folder.path().join("none").exists());
}
