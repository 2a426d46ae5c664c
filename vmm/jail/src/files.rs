//! The files that a run may open after it has entered its jail, by Landlock.
//!
//! Descriptors that are open already are not affected. What a place names must exist when the jail is entered: Landlock
//! knows files, not paths. To make a file, the right is needed for its folder.

use crate::error::JailError;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, make_bitflags,
};
use std::path::{Path, PathBuf};

/// The rights that are taken away where no place gives them. A kernel with an older interface takes fewer.
const KNOWN: ABI = ABI::V6;

/// A file or folder that a run may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A file that is read.
    Read(PathBuf),
    /// A file that is read and written, or a device with its requests.
    Write(PathBuf),
    /// A folder in which the run makes, changes and removes files and folders.
    Folder(PathBuf),
    /// A folder in which the run makes, writes, renames and removes files.
    NewFiles(PathBuf),
    /// A folder in which the run makes sockets, and removes them.
    Sockets(PathBuf),
}

impl Place {
    fn rule(&self) -> (&Path, BitFlags<AccessFs>) {
        match self {
            Self::Read(path) => (path, make_bitflags!(AccessFs::{ReadFile | ReadDir})),
            Self::Write(path) => (path, make_bitflags!(AccessFs::{ReadFile | WriteFile | Truncate | IoctlDev})),
            Self::Folder(path) => (
                path,
                make_bitflags!(AccessFs::{ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | RemoveFile | RemoveDir}),
            ),
            Self::NewFiles(path) => (path, make_bitflags!(AccessFs::{WriteFile | Truncate | MakeReg | RemoveFile})),
            Self::Sockets(path) => (path, make_bitflags!(AccessFs::{MakeSock | RemoveFile})),
        }
    }
}

/// What every run reads: the kernel's figures of the process and of the host, and itself, for backtraces.
const ALWAYS_READ: [&str; 3] = ["/proc", "/sys", "/proc/self/exe"];

/// Restricts the calling thread, and those that it starts, to these places. False: the kernel has no Landlock.
///
/// Abstract sockets of other programs are out of reach, and so are signals to other processes, unless it has children.
pub(crate) fn restrict(places: &[Place], children: bool) -> Result<bool, JailError> {
    let ruleset =
        Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(AccessFs::from_all(KNOWN))?;
    let ruleset = ruleset.handle_access(AccessNet::from_all(KNOWN))?;
    let scopes = if children { Scope::AbstractUnixSocket.into() } else { Scope::AbstractUnixSocket | Scope::Signal };
    let mut rules = ruleset.scope(scopes)?.create()?;
    let always = ALWAYS_READ.map(|path| Place::Read(path.into()));
    for place in always.iter().chain(places) {
        let (path, rights) = place.rule();
        // What is not there cannot be opened, and whoever opens it says so. A pipe without a path, to which /dev/stdout
        // may lead, is open already, and Landlock takes no rule for it.
        let Ok(file) = path.canonicalize().map_err(drop).and_then(|path| PathFd::new(path).map_err(drop)) else {
            continue;
        };
        rules = rules.add_rule(PathBeneath::new(file, rights))?;
    }
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}
