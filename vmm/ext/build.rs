//! Compiles the scheduler with clang, if the feature asks for it.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    if std::env::var_os("CARGO_FEATURE_SCHED_EXT").is_none() {
        return;
    }
    let folder = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let clang = std::env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    let mut compile = Command::new(&clang);
    compile.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c", "src/bpf/stile.bpf.c", "-o"]);
    let done = compile.arg(folder.join("stile.bpf.o")).status();
    match done {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{} ended with {status}", clang.display()),
        Err(why) => panic!("the feature sched-ext needs clang, which cannot be run: {why}"),
    }
}
