//! `stile guest` with packages that can be fetched, with packages that cannot, and with an unusable cache. apt and dpkg
//! are scripts here. The hardware lane shows that Debian's packages make a guest that boots.

use super::program::{Ended, output, stile};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

/// A package index in which everything is there; the meta-package of the kernel stands for a kernel.
const APT_CACHE: &str = r#"#!/bin/sh
shift 2
for name; do
    printf 'Package: %s\nVersion: 1:2\nDepends: linux-image-6.1.0-9-cloud-amd64 (= 2)\nSHA256: 00\n\n' "$name"
done
"#;
/// An archive without any package.
const NO_NETWORK: &str = "#!/bin/sh\necho \"E: Failed to fetch: Temporary failure resolving\" >&2\nexit 100\n";
/// An archive with other content than the index says.
const WRONG_FILE: &str = "#!/bin/sh\necho other >package.deb\n";

/// A folder with these programs and with a home.
fn machine(programs: &[(&str, &str)]) -> TempDir {
    let folder = TempDir::new().expect("a test may write temporary files");
    for part in ["bin", "home"] {
        fs::create_dir(folder.path().join(part)).expect("the folder is this test's own");
    }
    for (name, script) in programs {
        let path = folder.path().join("bin").join(name);
        fs::write(&path, script).expect("as above");
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("as above");
    }
    folder
}

/// `stile guest` on such a machine, with this path in its cache.
fn guest(machine: &Path, cache: &str, arguments: &[&str]) -> Ended {
    let mut command = stile(machine, &[&["guest"], arguments].concat());
    command.env("PATH", machine.join("bin")).env("HOME", machine.join("home"));
    command.env("XDG_CACHE_HOME", machine.join(cache));
    output(command)
}

#[track_caller]
fn fails(ended: Ended, told: &[&str]) {
    let (status, stdout, stderr) = ended;
    assert_eq!((status, stdout.as_str()), (Some(1), ""), "{stderr}");
    for words in told {
        assert!(stderr.contains(words), "no `{words}` in: {stderr}");
    }
}

#[test]
fn an_empty_cache_lists_no_guest_and_says_how_to_make_one() {
    let machine = machine(&[]);
    let (status, stdout, stderr) = guest(machine.path(), "cache", &["list"]);
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    assert!(stdout.contains("stile guest build linux"), "{stdout}");
    assert!(
        stdout.starts_with("# Built-in images, as image = \"builtin:NAME\": ") && stdout.contains("hello"),
        "{stdout}"
    );
    assert!(!machine.path().join("cache").exists(), "asking makes no folder");
}

#[test]
fn without_apt_the_build_says_what_it_is_made_of() {
    let machine = machine(&[]);
    fails(guest(machine.path(), "cache", &["build", "linux"]), &["no program `apt-cache`", "Debian's archive by apt"]);
}

#[test]
fn an_archive_out_of_reach_fails_the_build_with_what_apt_said_and_leaves_nothing_behind() {
    let machine = machine(&[("apt-cache", APT_CACHE), ("apt-get", NO_NETWORK)]);
    let told = ["linux-image-6.1.0-9-cloud-amd64 1:2", "archive in reach", "up to date", "Temporary failure resolving"];
    fails(guest(machine.path(), "cache", &["build", "linux"]), &told);
    let left: Vec<_> = fs::read_dir(machine.path().join("cache/stile")).expect("the cache was made").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_package_that_is_not_what_the_index_says_is_refused() {
    // The message has the digest of what was fetched, so that it can be compared.
    let machine = machine(&[("apt-cache", APT_CACHE), ("apt-get", WRONG_FILE)]);
    let told = ["came with SHA-256", "the index says 00", "try again"];
    fails(guest(machine.path(), "cache", &["build", "linux"]), &told);
}

#[test]
fn a_cache_that_cannot_be_written_fails_the_build_with_its_path() {
    let machine = machine(&[("apt-cache", APT_CACHE), ("apt-get", NO_NETWORK)]);
    // A file in the folder's place, which stops root as well.
    fs::write(machine.path().join("taken"), "").expect("the folder is this test's own");
    fails(guest(machine.path(), "taken", &["build", "linux"]), &["cannot write to the cache folder", "taken/stile"]);
}

#[test]
fn without_a_home_the_build_asks_for_one() {
    let machine = machine(&[]);
    let mut command = stile(machine.path(), &["guest", "build", "linux"]);
    command.env_remove("HOME").env_remove("XDG_CACHE_HOME");
    fails(output(command), &["neither XDG_CACHE_HOME nor HOME", "set one of them"]);
}
