//! A crate as its files, its modules and the paths that they name.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use cargo_metadata::{MetadataCommand, TargetKind};

/// Why the sources of a workspace could not be checked.
#[derive(Debug, thiserror::Error)]
pub enum StructureError {
    /// `cargo metadata` failed.
    #[error("cannot list the packages of the workspace")]
    Packages(#[source] cargo_metadata::Error),
    /// A file or a folder could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file is not Rust.
    #[error("cannot parse {}:{}: {source}", path.display(), source.span().start().line)]
    Parse {
        /// The path.
        path: PathBuf,
        /// The cause, with the line.
        source: syn::Error,
    },
    /// `rustfmt.toml` is not TOML or sets no `max_width`.
    #[error("rustfmt.toml sets no max_width")]
    Width,
}

/// Reads a text file.
pub(crate) fn read(path: &Path) -> Result<String, StructureError> {
    std::fs::read_to_string(path).map_err(|source| StructureError::Read { path: path.into(), source })
}

/// The root files of all libraries and programs of the workspace at `root`.
pub(crate) fn roots(root: &Path) -> Result<Vec<PathBuf>, StructureError> {
    let metadata = MetadataCommand::new().manifest_path(root.join("Cargo.toml")).no_deps().exec();
    let packages = metadata.map_err(StructureError::Packages)?.packages;
    let is_program = |kind: &TargetKind| matches!(kind, TargetKind::Lib | TargetKind::ProcMacro | TargetKind::Bin);
    let targets = packages.into_iter().flat_map(|package| package.targets);
    Ok(targets.filter(|target| target.kind.iter().any(is_program)).map(|target| target.src_path.into()).collect())
}

/// Index into [`Crate::files`].
pub(crate) type FileId = usize;
/// Index into [`Crate::modules`]. The root is 0.
pub(crate) type ModuleId = usize;

/// A crate, without code that only tests compile.
#[derive(Default)]
pub(crate) struct Crate {
    pub(crate) files: Vec<File>,
    pub(crate) modules: Vec<Module>,
}

/// A source file.
pub(crate) struct File {
    pub(crate) path: PathBuf,
    /// Names of the modules from the root to the module that this file is the body of.
    pub(crate) module: Vec<String>,
}

/// A module: a file's or an inline one.
pub(crate) struct Module {
    pub(crate) parent: Option<ModuleId>,
    pub(crate) file: FileId,
    /// The meaning of each name. A name can stand for a module, a type, a function and a macro at once.
    pub(crate) names: HashMap<String, Vec<Name>>,
    /// Paths of glob imports.
    pub(crate) globs: Vec<Vec<String>>,
    /// Whether a macro call may define names that are not in `names`.
    pub(crate) calls_macro: bool,
    pub(crate) references: Vec<Reference>,
}

/// The meaning of a name in a module.
pub(crate) enum Name {
    Module(ModuleId),
    /// An item that the module's file defines.
    Item,
    /// What the path names, seen from the module.
    Use(Vec<String>),
}

/// A path in a module's source.
pub(crate) struct Reference {
    pub(crate) path: Vec<String>,
    /// Line in the module's file, from 1.
    pub(crate) line: usize,
    pub(crate) kind: ReferenceKind,
}

/// How a path is named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReferenceKind {
    Plain,
    Glob,
    /// `pub use` and its narrower forms.
    ReExport,
}
