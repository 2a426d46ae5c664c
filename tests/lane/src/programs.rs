//! The programs of this tree that run in the lane. Cargo builds them as `cargo test --workspace` does, so that a
//! machine that has run the tests builds nothing anew; or, for figures, as users build them.
//!
//! The selected packages decide the features of dependencies, and so whether those and all that depends on them are
//! built again. So the whole workspace is selected, and of its tests those named `cli`, with which cargo builds the
//! programs that they test.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use stile_linux_images::tool::{self, ToolError};

/// How programs are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As `cargo test` does, with assertions.
    Debug,
    /// As `cargo build --release` does.
    Release,
}

/// Paths of the programs.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    /// stile.
    pub(crate) stile: PathBuf,
    /// The program that runs beside the tests.
    pub(crate) companion: PathBuf,
    /// The binaries of whole-VM tests, with their names; empty unless asked for.
    pub(crate) whole_vm: Vec<(String, PathBuf)>,
}

/// Why the programs cannot be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// A build failed; cargo reports the errors on standard error.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// cargo cannot be run.
    #[error("cannot run cargo")]
    Cargo(#[source] std::io::Error),
    /// The tree does not build.
    #[error("`cargo {0}` failed (see above)")]
    Build(String),
    /// Cargo built another set of programs.
    #[error("cargo told of no program {0}")]
    Missing(&'static str),
}

/// A line of `cargo build --message-format=json`, with the fields that are used.
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
    /// The package that it belongs to.
    manifest: PathBuf,
    path: PathBuf,
}

/// Builds stile, with these features, and if asked for the whole-VM tests.
pub(crate) fn build(
    profile: Profile,
    features: Option<&str>,
    with_whole_vm_tests: bool,
) -> Result<Programs, ProgramError> {
    let mut built = match (profile, with_whole_vm_tests) {
        (Profile::Debug, false) => cargo(profile, &["test", "--no-run", "--workspace", "--test", "cli"])?,
        (Profile::Debug, true) => cargo(profile, &["test", "--no-run", "--workspace", "--test", "*"])?,
        (Profile::Release, _) => {
            let mut arguments = vec!["build", "--package", "stile", "--package", "stile-lane"];
            arguments.extend(features.into_iter().flat_map(|features| ["--features", features]));
            cargo(profile, &arguments)?
        }
    };
    if profile == Profile::Release && with_whole_vm_tests {
        built.extend(cargo(profile, &["test", "--no-run", "--package", "stile-tests", "--test", "*"])?);
    }
    let program = |wanted: &'static str| {
        let found = built.iter().find(|built| built.kind == "bin" && built.name == wanted);
        found.map(|built| built.path.clone()).ok_or(ProgramError::Missing(wanted))
    };
    let (stile, companion) = (program("stile")?, program("companion")?);
    // The folder of their crate is the one above.
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("Cargo.toml");
    let is_whole_vm = |built: &Built| built.kind == "test" && built.manifest == manifest;
    let whole_vm = built.into_iter().filter(is_whole_vm).map(|built| (built.name, built.path)).collect();
    Ok(Programs { stile, companion, whole_vm })
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

/// A program's bytes without debug information, which is most of it.
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
