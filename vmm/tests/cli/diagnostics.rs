//! What the program says on standard error while it works, by level and format.

use super::program::{folder, output, stile};
use serde_json::Value;
use stile_tests::require_kvm;

const HELLO: &str = "[[vm]]\nname = \"greeter\"\nimage = \"builtin:hello\"\n";

/// The JSON objects that this text is made of.
fn objects(text: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(text).into_iter().collect::<Result<_, _>>().expect(text)
}

#[test]
fn v_tells_what_happens_to_vms_and_nothing_of_it_goes_to_standard_output() {
    let _ = require_kvm!();
    let folder = folder(HELLO);
    let (_, plain, silence) = output(stile(folder.path(), &["run", "stile.toml"]));
    let (status, stdout, stderr) = output(stile(folder.path(), &["run", "stile.toml", "-v"]));
    assert_eq!((status, silence.as_str()), (Some(0), ""));
    assert_eq!(stdout.lines().next(), plain.lines().next());
    for told in ["makes a domain policy=rsdl", "vm{vm=\"greeter\"}: made vcpus=1", "ended outcome=exit code 0"] {
        assert!(stderr.contains(told), "no `{told}` in: {stderr}");
    }
    assert!(!stderr.contains("vcpu{"), "that is for -vv: {stderr}");
    let (_, _, stderr) = output(stile(folder.path(), &["-vv", "run", "stile.toml"]));
    assert!(stderr.contains("vm{vm=\"greeter\"}: vcpu{index=0}: left its domain exits="), "{stderr}");
}

#[test]
fn as_json_every_line_of_standard_error_is_an_object_that_names_vm_and_vcpu() {
    let _ = require_kvm!();
    let folder = folder(HELLO);
    let (status, _, stderr) = output(stile(folder.path(), &["run", "stile.toml", "-vv", "--log-format", "json"]));
    let lines = objects(&stderr);
    assert_eq!(status, Some(0));
    let left = lines.iter().find(|line| line["message"] == "left its domain").expect("-vv tells of vCPUs");
    assert_eq!((&left["spans"][0]["vm"], &left["spans"][1]["index"]), (&"greeter".into(), &0.into()), "{left}");
}

#[test]
fn as_json_each_mistake_is_an_object_with_its_remedy() {
    let folder = folder("[[vm]]\nname = \"a\"\nimage = \"builtin:hello\"\nvcpsu = 1\n");
    let (status, stdout, stderr) = output(stile(folder.path(), &["check", "stile.toml", "--log-format", "json"]));
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    let last = objects(&stderr).pop().expect("a mistake");
    assert_eq!(last["level"], "ERROR");
    assert!(last["remedy"].as_str().is_some_and(|remedy| remedy.contains("did you mean `vcpus`?")), "{last}");
}

#[test]
fn q_leaves_warnings_and_qq_errors() {
    // More memory than a host has.
    let folder = folder(&format!("{HELLO}memory = \"3328M\"\ncount = 1000\n"));
    let warned = |more: &[&str]| {
        let (status, _, stderr) = output(stile(folder.path(), &[&["check", "stile.toml"], more].concat()));
        assert_eq!(status, Some(0), "{stderr}");
        stderr.contains("warning: ")
    };
    assert_eq!([&[][..], &["-q"], &["-qq"]].map(warned), [true, true, false]);
    let compare = |more: &[&str]| {
        let run = ["compare", "hogs", "--sim", "--vcpus", "4", "--duration", "0.05", "--reps", "1"];
        let (status, _, stderr) = output(stile(folder.path(), &[&run, more].concat()));
        assert_eq!(status, Some(0), "{stderr}");
        stderr.contains("round 1 of 1")
    };
    assert_eq!([&[][..], &["-q"]].map(compare), [true, false]);
}

#[test]
fn the_variable_wins_over_the_options_and_a_faulty_one_is_refused() {
    let folder = folder(HELLO);
    let with = |filter: &str| {
        let mut command = stile(folder.path(), &["check", "stile.toml", "-qq"]);
        command.env("STILE_LOG", filter);
        output(command)
    };
    assert_eq!(with("debug").0, Some(0));
    let (status, stdout, stderr) = with("warn,stile=loud");
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    assert!(
        stderr.contains("STILE_LOG: `stile=loud` is no filter") && stderr.contains("accepted: a level"),
        "{stderr}"
    );
}
