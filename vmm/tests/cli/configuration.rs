//! Mistakes in a configuration that are refused, and the output for a valid one.

use super::program::{folder, output, refused, stile};
use std::fs;
use stile_abi::IMAGE_MIN_GPA;
use stile_machine::unikernel::image::forge::{Piece, code, elf};

#[track_caller]
fn refused_vm(keys: &str, told: &[&str]) {
    refused(folder(&format!("[[vm]]\nname = \"a\"\n{keys}\n")).path(), told);
}

#[track_caller]
fn refused_image(file: &[u8], told: &[&str]) {
    let folder = folder("[[vm]]\nname = \"a\"\nimage = \"a.elf\"\n");
    fs::write(folder.path().join("a.elf"), file).expect("the folder is this test's own");
    refused(folder.path(), &[told, &["stile.toml:3:9: VM a", "a.elf"]].concat());
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
    refused_vm(
        "image = \"builtin:hello\"\nvcpus = 1024\nmemory = \"16M\"",
        &["stile.toml:5:10: VM a", "1024 vCPU(s)", "are needed"],
    );
}

#[test]
fn a_sound_configuration_is_told_with_each_vms_cpu_time_and_wait_bound() {
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
    assert!(rsdl.contains("3 VMs with 4 vCPUs and 48.0 MiB of memory on pCPUs 0 under rsdl+none\n"), "{rsdl}");
    assert!(
        rsdl.contains("  a: 1 VM with 2 vCPUs, class normal, nice 0: 0.73 CPUs, 0.36 for each vCPU, wait bound: "),
        "{rsdl}"
    );
    assert!(
        rsdl.contains("  b: 2 VMs with 1 vCPU, class normal, nice 5: 0.14 CPUs for each VM, wait bound: "),
        "{rsdl}"
    );
    assert!(!rsdl.contains("bound: none") && !rsdl.contains("bound: 0"), "{rsdl}");
    assert_eq!(told("algorithm = \"host\"").matches("wait bound: none").count(), 2);
    for (policy, then) in [
        ("", "waits longer than its bound is reported on stderr\n"),
        ("on_starvation = \"fallback\"", "is reported on stderr, and all vCPUs go over to the host's scheduler\n"),
        ("starvation_bound = \"2s\"", "waits longer than its bound, or 2s without one, is reported on stderr\n"),
        ("algorithm = \"o1\"\nstarvation_bound = \"2s\"", "a vCPU that waits longer than 2s is reported on stderr\n"),
        ("algorithm = \"o1\"", "no watchdog runs: o1 promises no bound, and `starvation_bound` is none\n"),
        ("algorithm = \"host\"", "no watchdog runs, the host's scheduler decides\n"),
    ] {
        let text = told(policy);
        assert!(text.contains("  on starvation: ") && text.ends_with(then), "{text}");
    }
}

#[test]
fn a_cap_is_told_with_two_periods_more_to_wait_and_refused_where_nothing_would_keep_to_it() {
    let config = |policy: &str| {
        let vm = "[[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\ncap = 0.5\ncap_period = \"50ms\"\n";
        folder(&format!("[host]\npcpus = [0]\n[policy]\nalgorithm = \"{policy}\"\n{vm}"))
    };
    let (status, stdout, stderr) = output(stile(config("rsdl").path(), &["check", "stile.toml"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("nice 0, cap 0.5 CPUs over 50.0 ms: 0.50 CPUs, wait bound: "), "{stdout}");
    assert!(stdout.contains("wait bound: 100 ms"), "{stdout}");
    for policy in ["host", "host-noyield"] {
        refused(config(policy).path(), &["stile.toml:8:7", "vm[0].cap", policy, "does not keep caps", "cpu.max"]);
    }
}

#[test]
fn check_tells_the_same_as_json_under_the_files_policy_or_another() {
    let vms = "[[vm]]\nname = \"web\"\nimage = \"builtin:hog\"\nvcpus = 2\nnice = -20\n\
               [[vm]]\nname = \"batch\"\nimage = \"builtin:hog\"\nvcpus = 2\nnice = 19\ncap = 0.5\n\
               [[vm]]\nname = \"scavenger\"\nimage = \"builtin:hog\"\nclass = \"idle\"\n";
    let folder = folder(&format!("[host]\npcpus = \"0\"\n{vms}"));
    let told = |more: &[&str]| {
        let (status, stdout, stderr) = output(stile(folder.path(), &[&["check", "stile.toml"], more].concat()));
        assert_eq!(status, Some(0), "{stderr}");
        (stdout, stderr)
    };
    let (text, warnings) = told(&[]);
    assert!(text.contains("cap 0.5 CPUs for all its vCPUs together over 100 ms"), "{text}");
    assert!(text.contains("class idle, nice 0: 0.00 CPUs, wait bound: none"), "{text}");
    for words in ["warning: a vCPU of batch may wait for", "to lower it: ", "nice = -6 for web"] {
        assert!(warnings.contains(words), "no `{words}` in: {warnings}");
    }
    let json: serde_json::Value = serde_json::from_str(&told(&["--json"]).0).unwrap();
    let of =
        |vm: usize, key: &str| json["vms"][vm][key].as_f64().unwrap_or_else(|| panic!("no {key} of {vm} in {json}"));
    assert!(of(0, "expected_cpus") > 0.9 && of(2, "expected_cpus") == 0.0);
    assert!(of(0, "expected_cpus_per_vcpu") > 0.45 && of(1, "wait_bound_seconds") > 1.0);
    assert_eq!(json["vms"][1]["cap"], serde_json::json!({ "cpus": 0.5, "period_seconds": 0.1 }));
    let mut warned = json["warnings"].as_array().unwrap().iter().filter_map(|warning| warning.as_str());
    assert!(warned.any(|warning| warning.starts_with("a vCPU of batch may wait for")), "{json}");
    let o1 = told(&["--policy", "o1:starvation_bound=2s", "--json"]).0;
    let o1: serde_json::Value = serde_json::from_str(&o1).unwrap();
    assert!(o1["policy"] == "o1:starvation_bound=2s" && o1["vms"][0]["wait_bound_seconds"].is_null(), "{o1}");
    let (status, _, stderr) = output(stile(folder.path(), &["check", "stile.toml", "--policy", "host"]));
    assert_eq!(status, Some(2));
    assert!(stderr.contains("the policy `host` does not keep caps"), "{stderr}");
}

#[test]
fn more_memory_than_the_host_has_and_keys_without_meaning_are_warned_of() {
    let vm = "[[vm]]\nname = \"a\"\nimage = \"builtin:hog\"\nmemory = \"3G\"\ncount = 1000\n";
    let config = folder(&format!("[policy]\nalgorithm = \"o1\"\ngrain = true\n[policy.lock]\nadaptive = false\n{vm}"));
    let (status, stdout, stderr) = output(stile(config.path(), &["check", "stile.toml"]));
    assert_eq!(status, Some(0), "{stderr}");
    assert!(stdout.contains("1000 VMs with 1000 vCPUs and 2.93 TiB of memory"), "{stdout}");
    assert!(stderr.contains("warning: the VMs have 2.93 TiB of memory together, and this host has"), "{stderr}");
    assert!(stderr.contains("policy.grain means nothing under this algorithm: it is for `rsdl`"), "{stderr}");
    assert!(!stderr.contains("adaptive"), "every policy of stile's has that lock: {stderr}");
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
    refused(folder.path(), &["stile.toml:6:9: VM bad"]);
}
