//! The programs of this tree that run in the lane: built by cargo as `cargo test --workspace` builds them, so that a
//! machine that has run the tests builds nothing anew; or, where figures are wanted, as users build them.
//!
//! What is selected decides which features dependencies have, and so whether they and all that stands on them are built
//! once more. So it is the whole workspace, and of that the tests named `cli`, with which cargo builds the programs
//! they are of.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use stile_linux_images::tool::{self, ToolError};

/// How programs are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As `cargo test` does, with what the code asserts.
    Debug,
    /// As `cargo build --release` does.
    Release,
}

/// The programs.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// stile.
    pub(crate) stile: PathBuf,
    /// What runs beside the tests.
    pub(crate) hold_keys: PathBuf,
    /// Those of whole-VM tests, with their names; empty unless asked for.
    pub(crate) whole_vm: Vec<(String, PathBuf)>,
}

/// Why they are not there.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// A program failed; cargo says on standard error what is wrong.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// cargo cannot be run.
    #[error("cannot run cargo")]
    Cargo(#[source] std::io::Error),
    /// The tree does not build.
    #[error("`cargo {0}` failed (see above)")]
    Build(String),
    /// cargo built something else.
    #[error("cargo told of no program {0}")]
    Missing(&'static str),
}

/// A line of `cargo build --message-format=json`, as far as it matters.
#[derive(Debug, Deserialize)]
struct Message {
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    target: Option<Target>,
    #[serde(default)]
    executable: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

/// A program that cargo built.
#[derive(Debug, PartialEq, Eq)]
struct Built {
    name: String,
    kind: String,
    /// Of its package.
    manifest: PathBuf,
    path: PathBuf,
}

/// Builds stile and, if asked for, the whole-VM tests.
pub(crate) fn build(profile: Profile, with_whole_vm_tests: bool) -> Result<Programs, ProgramError> {
    let mut built = match (profile, with_whole_vm_tests) {
        (Profile::Debug, false) => cargo(profile, &["test", "--no-run", "--workspace", "--test", "cli"])?,
        (Profile::Debug, true) => cargo(profile, &["test", "--no-run", "--workspace", "--test", "*"])?,
        (Profile::Release, _) => cargo(profile, &["build", "--package", "stile", "--package", "stile-lane"])?,
    };
    if profile == Profile::Release && with_whole_vm_tests {
        built.extend(cargo(profile, &["test", "--no-run", "--package", "stile-tests", "--test", "*"])?);
    }
    let program = |wanted: &'static str| {
        let found = built.iter().find(|built| built.kind == "bin" && built.name == wanted);
        found.map(|built| built.path.clone()).ok_or(ProgramError::Missing(wanted))
    };
    let (stile, hold_keys) = (program("stile")?, program("hold-keys")?);
    // Their crate is the folder above.
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("Cargo.toml");
    let is_whole_vm = |built: &Built| built.kind == "test" && built.manifest == manifest;
    let whole_vm = built.into_iter().filter(is_whole_vm).map(|built| (built.name, built.path)).collect();
    Ok(Programs { stile, hold_keys, whole_vm })
}

fn cargo(profile: Profile, arguments: &[&str]) -> Result<Vec<Built>, ProgramError> {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut cargo = Command::new(program);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments);
    cargo.args(["--quiet", "--message-format=json-render-diagnostics"]);
    if profile == Profile::Release {
        cargo.arg("--release");
    }
    let done = cargo.stderr(Stdio::inherit()).output().map_err(ProgramError::Cargo)?;
    if !done.status.success() {
        return Err(ProgramError::Build(arguments.join(" ")));
    }
    Ok(executables(&String::from_utf8_lossy(&done.stdout)))
}

fn executables(messages: &str) -> Vec<Built> {
    let built = |line: &str| {
        let Message { manifest_path: manifest, target, executable } = serde_json::from_str(line).ok()?;
        let Target { name, kind } = target?;
        Some(Built { name, kind: kind.into_iter().next()?, manifest, path: executable? })
    };
    messages.lines().filter_map(built).collect()
}

/// A program's bytes without what only a debugger reads, which is most of it.
pub(crate) fn stripped(program: &Path, folder: &Path) -> Result<Vec<u8>, ProgramError> {
    let out = folder.join("stripped");
    tool::output(Command::new("strip").arg("-o").arg(&out).arg(program), "binutils")?;
    std::fs::read(&out).map_err(ProgramError::Cargo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_told_from_libraries_and_other_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"stile"},"executable":null}
{"reason":"compiler-artifact","manifest_path":"/m","target":{"kind":["bin"],"name":"stile"},"executable":"/t/stile"}
not json
{"reason":"build-finished","success":true}"#;
        let (name, kind) = ("stile".to_owned(), "bin".to_owned());
        assert_eq!(executables(messages), [Built { name, kind, manifest: "/m".into(), path: "/t/stile".into() }]);
    }
}
