//! Man pages and completions: they have every command and its options.

use super::program::{output, stile};
use std::collections::BTreeSet;
use std::fs;
use tempfile::TempDir;

/// The commands that the help lists.
fn commands() -> Vec<String> {
    let folder = TempDir::new().expect("a test may write temporary files");
    let (_, help, _) = output(stile(folder.path(), &["help"]));
    let (_, list) = help.split_once("Commands:\n").expect("the help lists commands");
    let lines = list.lines().take_while(|line| !line.is_empty());
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    names.filter(|name| name != "help").collect()
}

#[test]
fn there_is_a_man_page_for_the_program_and_for_each_command() {
    let folder = TempDir::new().unwrap();
    let (status, stdout, stderr) = output(stile(folder.path(), &["man", "new/pages"]));
    assert_eq!((status, stdout.as_str()), (Some(0), ""), "{stderr}");
    let pages = fs::read_dir(folder.path().join("new/pages")).unwrap();
    let pages: BTreeSet<_> = pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    let commands = commands();
    assert!(commands.contains(&"run".to_owned()), "{commands:?}");
    for command in &commands {
        assert!(pages.contains(&format!("stile-{command}.1")), "{command}: {pages:?}");
    }
    assert!(pages.contains("stile.1") && pages.contains("stile-guest-build.1"), "{pages:?}");
    let run = fs::read_to_string(folder.path().join("new/pages/stile-run.1")).unwrap();
    assert!(run.contains(".TH stile-run 1") && run.contains("stats\\-json"), "{run}");
}

#[test]
fn man_pages_that_cannot_be_written_are_told_and_exit_1() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let (status, _, stderr) = output(stile(folder.path(), &["man", "file"]));
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("cannot write man pages into file"), "{stderr}");
}

#[test]
fn completions_for_each_shell_have_every_command_and_its_options() {
    let folder = TempDir::new().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let (status, script, stderr) = output(stile(folder.path(), &["completions", shell]));
        assert_eq!(status, Some(0), "{shell}: {stderr}");
        for word in commands().iter().map(String::as_str).chain(["stats-json", "build"]) {
            assert!(script.contains(word), "{shell}: no {word}");
        }
    }
    let (status, stdout, stderr) = output(stile(folder.path(), &["completions", "tcsh"]));
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    assert!(stderr.contains("bash"), "{stderr}");
}
