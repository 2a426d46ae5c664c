//! Tells the program from which commit it was built (`STILE_COMMIT`), for reports.
//!
//! The value is the commit that was checked out; "unknown" outside a git checkout. Local changes are not told: that
//! would need a build at every edit of any file.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    println!("cargo::rustc-env=STILE_COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    // HEAD names a branch and changes at a checkout; the branch, loose or packed, changes at a commit.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        if let Some(path) = git(&["rev-parse", "--path-format=absolute", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// git's answer, in the package's directory; empty if there is no git, no checkout or no such thing.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}
