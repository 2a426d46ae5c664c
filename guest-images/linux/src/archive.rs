//! Where packages come from: the apt of this machine, or another suite of the same Debian archive.
//!
//! For another suite apt has its sources, its lists and its cache in a folder of the user's cache. So what the machine
//! itself knows and has installed neither matters nor changes. The archive's address is the one that the machine has.

use crate::cache::{Cache, CacheError};
use crate::packages::PackageError;
use crate::tool::{self, ToolError};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

/// The keys of Debian's archive (package debian-archive-keyring).
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// The age of a suite's lists at which they are fetched again. A package of an older list may be gone.
const STALE: Duration = Duration::from_secs(24 * 3600);
/// The file whose time tells when a suite's lists were fetched.
const FETCHED: &str = "fetched";

/// A source of packages.
#[derive(Debug, Clone, Default)]
pub struct Archive {
    /// Options for apt, each as `NAME=VALUE`; none: the machine's own.
    options: Vec<String>,
}

impl Archive {
    /// What this machine's apt knows.
    pub fn of_machine() -> Self {
        Self::default()
    }

    /// A suite, such as `trixie`, of the Debian archive that this machine uses. Fetches its lists if there are none or
    /// they are old, of which `tell` is told before.
    pub fn of_suite(suite: &str, cache: &Cache, tell: &mut dyn FnMut(&str)) -> Result<Self, PackageError> {
        let folder = cache.folder(&format!("suites/{suite}"))?;
        let write = |source| CacheError::Write { path: folder.clone(), source };
        for part in ["lists/partial", "cache/archives/partial"] {
            cache.folder(&format!("suites/{suite}/{part}"))?;
        }
        let address = address()?;
        let source = format!("deb [target=Packages signed-by={KEYS}] {address} {suite} main\n");
        std::fs::write(folder.join("sources.list"), source).map_err(write)?;
        std::fs::write(folder.join("status"), "").map_err(write)?;

        let archive = Self { options: options(&folder) };
        let fetched = folder.join(FETCHED);
        let age = std::fs::metadata(&fetched).and_then(|file| file.modified()).ok().map(age);
        if age.is_none_or(|age| age > STALE) {
            tell(&format!("fetching the package lists of Debian's suite {suite}"));
            match (archive.update(), age) {
                (Ok(()), _) => std::fs::write(&fetched, "").map_err(write)?,
                (Err(_), Some(_)) => tell("they cannot be fetched; using those there are"),
                (Err(source), None) => return Err(PackageError::Lists { suite: suite.to_owned(), source }),
            }
        }
        Ok(archive)
    }

    fn update(&self) -> Result<(), ToolError> {
        tool::output(self.command("apt-get").args(["--quiet", "--error-on=any", "update"]), "apt").map(drop)
    }

    /// A program of apt that works on this source.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(self.options.iter().flat_map(|option| ["--option", option]));
        // The user's cache and workshops are private. apt, run by root, could not change to its own user there, and
        // would warn of that.
        command.args(["--option", "APT::Sandbox::User=root"]);
        command
    }
}

/// Everything that apt would read or write elsewhere on the machine.
fn options(folder: &Path) -> Vec<String> {
    let at = |name: &str, path: &str| format!("{name}={}", folder.join(path).display());
    let none = |name: &str| format!("{name}=/dev/null");
    vec![
        at("Dir::Etc::sourcelist", "sources.list"),
        none("Dir::Etc::sourceparts"),
        none("Dir::Etc::preferences"),
        none("Dir::Etc::preferencesparts"),
        at("Dir::State", ""),
        at("Dir::State::lists", "lists"),
        at("Dir::State::status", "status"),
        at("Dir::Cache", "cache"),
        "Acquire::Languages=none".to_owned(),
    ]
}

fn age(time: SystemTime) -> Duration {
    SystemTime::now().duration_since(time).unwrap_or_default()
}

/// The address of the Debian archive that this machine uses.
fn address() -> Result<String, PackageError> {
    let mut targets = Command::new("apt-get");
    targets.args(["indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)", "Created-By: Packages"]);
    let targets = tool::output(&mut targets, "apt")?;
    address_in(&String::from_utf8_lossy(&targets)).ok_or(PackageError::NotDebian)
}

/// The address of Debian's archive itself, not that of its security updates nor another publisher's.
fn address_in(targets: &str) -> Option<String> {
    targets.lines().find_map(|line| line.strip_prefix("Debian|Debian|")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_that_of_the_archive_and_not_of_another_publisher() {
        let targets = "Other|Other|http://other.example/\nDebian|Debian-Security|http://security.example/\n\
                       Debian|Debian|http://archive.example/debian/\n";
        assert_eq!(address_in(targets).as_deref(), Some("http://archive.example/debian/"));
        assert_eq!(address_in("Other|Debian|http://other.example/\n"), None);
    }

    #[test]
    fn a_suite_leaves_the_machines_own_apt_alone() {
        let archive = Archive { options: options(Path::new("/cache/suites/x")) };
        let command = archive.command("apt-cache");
        let all: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
        for own in ["Dir::Etc::sourcelist=", "Dir::State::lists=", "Dir::State::status=", "Dir::Cache="] {
            let option = all.iter().find_map(|option| option.strip_prefix(own));
            assert!(option.is_some_and(|path| path.starts_with("/cache/suites/x/")), "{own}: {option:?}");
        }
        assert_eq!(Archive::of_machine().command("apt-cache").get_args().count(), 2);
    }
}
