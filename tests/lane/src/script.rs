//! The lane's tests: a shell script each, in `tests/lane/tests`. The first comment describes the test.
//!
//! Two lines of the comment are for the lane: `# limit: SECONDS`, after which the test is killed, and, if it needs more
//! than stile, `# needs: THING...`. A test with two arguments is two tests.

use std::path::{Path, PathBuf};
use std::time::Duration;

/// A need of a test besides stile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// The programs of the crate of whole-VM tests, in `/lane/whole-vm`.
    WholeVmTests,
    /// Kernel and initramfs of `stile guest build linux`, in `/lane/linux`.
    LinuxGuest,
    /// Those of `stile guest build linux-large`, in `/lane/linux-large`.
    LargeLinuxGuest,
    /// QEMU with what its microvm machine needs.
    Qemu,
}

/// A test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    /// Its name, that of its file.
    pub(crate) name: String,
    /// Its description, in a line.
    pub(crate) description: String,
    /// Its time limit.
    pub(crate) limit: Duration,
    /// Its needs.
    pub(crate) needs: Vec<Need>,
    /// The script.
    pub(crate) text: String,
}

/// Why there are no tests to run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScriptError {
    /// They cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The path.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// A test lacks a line that the lane needs.
    #[error("test {name}: {wrong}")]
    Header {
        /// The test.
        name: String,
        /// The mistake.
        wrong: String,
    },
    /// There is no such test.
    #[error("there is no test {name}; there are {known}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of all tests.
        known: String,
    },
}

/// All tests of the lane, which is at this path, sorted by name.
pub(crate) fn all(lane: &Path) -> Result<Vec<Script>, ScriptError> {
    let folder = lane.join("tests");
    let read = |path: &Path| {
        let path = path.to_owned();
        move |source| ScriptError::Read { path, source }
    };
    let mut scripts = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(read(&folder))? {
        let path = entry.map_err(read(&folder))?.path();
        // The folder also has tests of the lane itself.
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".sh")) else { continue };
        let text = std::fs::read_to_string(&path).map_err(read(&path))?;
        scripts.push(Script::parse(name, text)?);
    }
    scripts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scripts)
}

/// The tests of these names, in that order; all if none is named.
pub(crate) fn chosen(all: Vec<Script>, names: &[String]) -> Result<Vec<Script>, ScriptError> {
    if names.is_empty() {
        return Ok(all);
    }
    let one = |name: &String| {
        let known = || all.iter().map(|script| script.name.as_str()).collect::<Vec<_>>().join(", ");
        let unknown = || ScriptError::Unknown { name: name.clone(), known: known() };
        all.iter().find(|script| script.name == *name).cloned().ok_or_else(unknown)
    };
    names.iter().map(one).collect()
}

impl Script {
    fn parse(name: &str, text: String) -> Result<Self, ScriptError> {
        let wrong = |wrong: String| ScriptError::Header { name: name.to_owned(), wrong };
        let lines = text.lines().skip_while(|line| line.starts_with("#!"));
        let comment: Vec<&str> = lines.map_while(|line| line.strip_prefix('#')).map(str::trim).collect();
        let value = |key: &str| comment.iter().find_map(|line| line.strip_prefix(key));
        let description = comment.first().filter(|line| !line.is_empty());
        let description = description.ok_or_else(|| wrong("its first comment does not say what it shows".into()))?;
        let limit = value("limit:").and_then(|seconds| seconds.trim().parse().ok());
        let limit = limit.ok_or_else(|| wrong("its comment has no `limit: SECONDS`".into()))?;
        let need = |word: &str| match word {
            "whole-vm-tests" => Ok(Need::WholeVmTests),
            "linux-guest" => Ok(Need::LinuxGuest),
            "large-linux-guest" => Ok(Need::LargeLinuxGuest),
            "qemu" => Ok(Need::Qemu),
            other => Err(wrong(format!(
                "it needs `{other}`, which is not whole-vm-tests, linux-guest, large-linux-guest or qemu"
            ))),
        };
        let needs = value("needs:").unwrap_or_default().split_whitespace().map(need).collect::<Result<_, _>>()?;
        let (name, description) = (name.to_owned(), (*description).to_owned());
        Ok(Self { name, description, limit: Duration::from_secs(limit), needs, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "#!/bin/sh\n# Shows that it works.\n#\n# limit: 90\n# needs: linux-guest\nexit 0\n# limit: 1\n";

    #[test]
    fn the_comment_says_what_the_lane_has_to_know() {
        let script = Script::parse("works", TEXT.into()).unwrap();
        assert_eq!(script.description, "Shows that it works.");
        assert_eq!((script.limit, script.needs), (Duration::from_secs(90), vec![Need::LinuxGuest]));
    }

    #[test]
    fn a_comment_that_lacks_something_is_refused_with_what_it_lacks() {
        let wrong = |text: &str| Script::parse("x", text.into()).unwrap_err().to_string();
        assert!(wrong("exit 0\n").contains("what it shows"));
        assert!(wrong("# Shows.\n").contains("limit"));
        assert!(wrong("# Shows.\n# limit: 1\n# needs: luck\n").contains("luck"));
    }

    #[test]
    fn tests_are_run_in_the_order_asked_for_and_unknown_ones_named() {
        let script = |name: &str| Script::parse(name, TEXT.into()).unwrap();
        let all = vec![script("a"), script("b")];
        let names = |names: &[&str]| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            chosen(all.clone(), &names).map(|chosen| chosen.into_iter().map(|script| script.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["a", "b"]);
        assert_eq!(names(&["b", "a"]).unwrap(), ["b", "a"]);
        assert!(names(&["c"]).unwrap_err().to_string().contains("a, b"));
    }

    #[test]
    fn every_test_of_the_lane_has_a_whole_comment() {
        let scripts = all(Path::new(env!("CARGO_MANIFEST_DIR"))).unwrap();
        assert!(scripts.iter().any(|script| script.name == "unikernel"));
    }
}
