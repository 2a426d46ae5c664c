//! The lane's command line, as far as it needs no emulator. Cargo builds the lane's programs for this test, and
//! `scripts/hardware-lane` uses that to build them.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Output};

fn lane(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hardware-lane")).args(arguments).output().expect("cargo built the program")
}

#[test]
fn every_script_is_listed_with_what_it_shows() {
    let listed = lane(&["--list"]);
    assert!(listed.status.success());
    let listed = String::from_utf8(listed.stdout).expect("plain text");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let files = std::fs::read_dir(folder).expect("the tests' folder").map(|entry| entry.expect("an entry").file_name());
    let script = |file: OsString| Some(file.to_str()?.strip_suffix(".sh")?.to_owned());
    let mut scripts: Vec<_> = files.filter_map(script).collect();
    scripts.sort();
    let names: Vec<_> = listed.lines().map(|line| line.split_once(' ').expect("a description").0).collect();
    assert_eq!(names, scripts);
}

#[test]
fn a_test_that_there_is_not_is_refused_with_those_there_are() {
    let refused = lane(&["linux-boot", "linux-shoes"]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{told}");
    assert!(told.contains("no test linux-shoes") && told.contains("linux-boot, linux-boot-time"), "{told}");
}
