//! Comparisons without guests: because KVM cannot be used, or because a simulation is asked for.

use super::program::{Ended, PROGRAM, folder, output, stile};
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use stile_tests::{require_kvm, skip};
use tempfile::TempDir;

/// A user without any permissions.
const NOBODY: u32 = 65534;

/// The program as a user without permission for KVM runs it, in a folder with this configuration; `None` if the test
/// cannot change the user.
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

/// Every plot and table of the report in this folder is marked as simulated.
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
        fs::read(folder.path().join(name).join("raw/mixed-rsdl-6-round-0.rec")).unwrap()
    };
    let first = events("report");
    assert!(first.len() > 10_000 && first == events("again"));
    let (status, stdout, stderr) = output(stile(folder.path(), &["replay", "again/raw/mixed-rsdl-6-round-1.rec"]));
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
        ("suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [4]\npcpus = 2\nsed = 1\n", "sed: unknown key `sed`"),
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
fn costs_of_a_disturbed_host_are_warned_of_and_the_report_is_shown_by_its_folder() {
    let folder = folder("");
    let figures = ["exit", "leave", "switch", "thread_switch", "kick", "wake", "hop", "pause", "lock", "migration"];
    let figures: String = figures.iter().map(|name| format!("\"{name}_ns\": 100, ")).collect();
    let measured = "{\"others\": 0.9, \"stolen\": null, \"spread\": {}, \"disturbed\": [\"other programs ran\"]}";
    fs::write(folder.path().join("costs.json"), format!("{{{figures}\"measured\": {measured}}}")).unwrap();
    let scenario = "suite = \"ticket\"\npolicies = [\"rsdl\"]\nvcpus = [2]\npcpus = 1\nduration = 0.02\nreps = 1\n";
    fs::write(folder.path().join("scenario.toml"), format!("{scenario}costs = \"costs.json\"\n")).unwrap();
    let (status, table, stderr) = output(stile(folder.path(), &["sim", "scenario.toml", "--out", "report"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stderr.contains("disturbed") && stderr.contains("should not be used"), "{stderr}");
    assert!(fs::read_to_string(folder.path().join("report/report.json")).unwrap().contains("should not be used"));
    let (status, stdout, stderr) = output(stile(folder.path(), &["show", "report"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(table.starts_with(&stdout), "{stdout}{table}");
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
