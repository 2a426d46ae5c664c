//! Builds the guest programs and embeds them.
//!
//! A nested cargo builds the workloads crate a second time, as freestanding static images for the host's own target.
//! This needs no further rustup target and uses the host build's linker. It builds the first process of Linux guests as
//! well, as a static program with the C library. The outer build's flags (coverage, sanitizers, lint wrappers) are for
//! host programs and are taken away.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    let here = PathBuf::from(var("CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(var("OUT_DIR"));
    for input in ["abi", "rt", "workloads", "linux/init", "ring0"] {
        println!("cargo::rerun-if-changed={}", here.join(input).display());
    }
    println!("cargo::rerun-if-changed={}", here.join("../Cargo.lock").display());
    let images = image_names(&here.join("workloads/src/bin"));
    let built = build_workloads(&here, &out);
    let mut catalogue = String::from("[\n");
    for name in &images {
        let path = built.join(name);
        assert!(path.exists(), "the guest build left no {}", path.display());
        catalogue += &format!("    ({name:?}, include_bytes!({path:?})),\n");
    }
    catalogue += "]\n";
    write(&out.join("catalogue.rs"), &catalogue);
    let ring0 = build_ring0(&here, &out).join("stile-ring0");
    write(&out.join("ring0.rs"), &format!("include_bytes!({ring0:?})"));
    let init = build_init(&here, &out).join("stile-init");
    write(&out.join("init.rs"), &format!("include_bytes!({init:?})"));
}

/// One image per program in `src/bin`, sorted.
fn image_names(bin: &Path) -> Vec<String> {
    let entries = fs::read_dir(bin).unwrap_or_else(|e| panic!("cannot list {}: {e}", bin.display()));
    let mut names: Vec<String> =
        entries.filter_map(|entry| Some(entry.ok()?.path().file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

fn write(file: &Path, text: &str) {
    fs::write(file, text).unwrap_or_else(|e| panic!("cannot write {}: {e}", file.display()));
}

/// Builds the unikernel programs. Returns their folder.
fn build_workloads(here: &Path, out: &Path) -> PathBuf {
    let what = ["--package", "stile-workloads", "--bins", "--features", "guest"];
    build(here, &out.join("guests"), &what, &freestanding(&here.join("rt/link.ld"), 4096))
}

/// Builds the program at CPL 0. Returns its folder.
fn build_ring0(here: &Path, out: &Path) -> PathBuf {
    let what = ["--package", "stile-ring0", "--bins", "--features", "guest"];
    build(here, &out.join("ring0"), &what, &freestanding(&here.join("ring0/link.ld"), 2 << 20))
}

/// Flags for a program that runs without an operating system, linked by this script into segments with this alignment.
fn freestanding(script: &Path, alignment: u32) -> Vec<String> {
    let flags = [
        "-Crelocation-model=static",
        "-Ctarget-cpu=x86-64",
        "-Clink-arg=-nostartfiles",
        "-Clink-arg=-nostdlib",
        "-Clink-arg=-static",
        "-Clink-arg=-no-pie",
    ];
    let layout = format!("-Clink-arg=-Wl,--build-id=none,-z,max-page-size={alignment},-z,norelro");
    let script = format!("-Clink-arg=-Wl,-T,{}", script.display());
    flags.map(str::to_owned).into_iter().chain([layout, script]).collect()
}

/// Builds the first process of Linux guests. Returns its folder.
fn build_init(here: &Path, out: &Path) -> PathBuf {
    let flags = ["-Ctarget-feature=+crt-static", "-Crelocation-model=static", "-Ctarget-cpu=x86-64"];
    build(here, &out.join("init"), &["--package", "stile-init", "--bins"], &flags.map(str::to_owned))
}

/// Runs a nested build. Returns the folder with the programs.
fn build(here: &Path, target_dir: &Path, what: &[&str], flags: &[String]) -> PathBuf {
    let target = var("TARGET");
    let mut cargo = Command::new(var("CARGO"));
    cargo
        .current_dir(here)
        .args(["build", "--quiet", "--locked", "--profile", "guest", "--target", &target])
        .args(what)
        .arg("--target-dir")
        .arg(target_dir)
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f"));
    for outer in ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_BUILD_TARGET", "CARGO_TARGET_DIR"] {
        cargo.env_remove(outer);
    }
    let status = cargo.status().unwrap_or_else(|e| panic!("cannot run cargo for the guest programs: {e}"));
    assert!(status.success(), "the guest programs do not build (see above)");
    target_dir.join(target).join("guest")
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo did not set {name}"))
}
