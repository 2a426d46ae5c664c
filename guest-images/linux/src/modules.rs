//! A kernel package's modules, and the order in which to load some of them: each after those it depends on.
//!
//! The package brings no table of dependencies (one is made when it is installed), but every module names its own.

use crate::tool::{self, ToolError};
use object::{Object, ObjectSection};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Section of a module with what it says of itself: texts such as `depends=virtio,virtio_ring`, each ended by a zero
/// byte.
const SECTION: &str = ".modinfo";

/// A module to be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Its name, with underscores.
    pub name: String,
    /// Its contents, uncompressed.
    pub bytes: Vec<u8>,
}

/// The modules of one kernel.
#[derive(Debug)]
pub struct Modules {
    folder: PathBuf,
    /// By name, with underscores.
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

/// Why modules cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// A file or folder cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// What.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// There is not just one kernel's folder.
    #[error("{path} should have one folder, of one kernel's modules")]
    Kernels {
        /// The folder of kernels' modules.
        path: PathBuf,
    },
    /// The kernel has no such module.
    #[error("there is no module {name} in {folder}, nor is it built into the kernel")]
    Missing {
        /// The module.
        name: String,
        /// The kernel's modules.
        folder: PathBuf,
    },
    /// A module cannot be understood.
    #[error("{path} is not a kernel module")]
    NotModule {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: object::read::Error,
    },
    /// It cannot be uncompressed.
    #[error("cannot uncompress a module")]
    Compressed(#[from] ToolError),
}

impl Modules {
    /// The modules of the one kernel whose package is unpacked at the root.
    pub fn of_package(root: &Path) -> Result<Self, ModuleError> {
        let kernels = root.join("lib/modules");
        let mut folders = entries(&kernels)?;
        let (Some(folder), None) = (folders.pop(), folders.pop()) else {
            return Err(ModuleError::Kernels { path: kernels });
        };
        let mut files = BTreeMap::new();
        let mut open = vec![folder.join("kernel")];
        while let Some(path) = open.pop() {
            for path in entries(&path)? {
                match name_of(&path) {
                    _ if path.is_dir() => open.push(path),
                    Some(name) => drop(files.insert(name, path)),
                    None => {}
                }
            }
        }
        let list = folder.join("modules.builtin");
        let list = std::fs::read_to_string(&list).map_err(|source| ModuleError::Read { path: list, source })?;
        let builtin = list.lines().filter_map(|line| name_of(Path::new(line))).collect();
        Ok(Self { folder, files, builtin })
    }

    /// These modules and all that they depend on, in an order in which they can be loaded. What is built into the
    /// kernel is left out.
    pub fn in_order(&self, names: &[&str]) -> Result<Vec<Module>, ModuleError> {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        names.iter().try_for_each(|name| self.visit(&name.replace('-', "_"), &mut seen, &mut order))?;
        Ok(order)
    }

    fn visit(&self, name: &str, seen: &mut BTreeSet<String>, order: &mut Vec<Module>) -> Result<(), ModuleError> {
        if self.builtin.contains(name) || !seen.insert(name.to_owned()) {
            return Ok(());
        }
        let missing = || ModuleError::Missing { name: name.to_owned(), folder: self.folder.clone() };
        let path = self.files.get(name).ok_or_else(missing)?;
        let bytes = read(path)?;
        let not_module = |source| ModuleError::NotModule { path: path.clone(), source };
        for dependency in dependencies(&bytes).map_err(not_module)? {
            self.visit(&dependency, seen, order)?;
        }
        order.push(Module { name: name.to_owned(), bytes });
        Ok(())
    }
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, ModuleError> {
    let read = |source| ModuleError::Read { path: folder.to_owned(), source };
    let paths = std::fs::read_dir(folder).map_err(read)?.map(|entry| Ok(entry?.path()));
    paths.collect::<std::io::Result<_>>().map_err(read)
}

/// The name of the module in a file, if it is one: `virtio_rng` of `virtio-rng.ko.xz`.
fn name_of(path: &Path) -> Option<String> {
    let (name, rest) = path.file_name()?.to_str()?.split_once(".ko")?;
    matches!(rest, "" | ".xz").then(|| name.replace('-', "_"))
}

fn read(path: &Path) -> Result<Vec<u8>, ModuleError> {
    if path.extension().is_some_and(|extension| extension == "xz") {
        return Ok(tool::output(Command::new("xz").args(["--decompress", "--stdout"]).arg(path), "xz-utils")?);
    }
    std::fs::read(path).map_err(|source| ModuleError::Read { path: path.to_owned(), source })
}

fn dependencies(module: &[u8]) -> object::read::Result<Vec<String>> {
    let file = object::File::parse(module)?;
    let Some(section) = file.section_by_name(SECTION) else { return Ok(Vec::new()) };
    Ok(depends(section.data()?))
}

fn depends(info: &[u8]) -> Vec<String> {
    let texts = info.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let lists = texts.filter_map(|text| text.strip_prefix("depends=").map(str::to_owned));
    let names = |list: String| list.split(',').map(|name| name.replace('-', "_")).collect::<Vec<_>>();
    lists.flat_map(names).filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_names_what_it_depends_on() {
        assert_eq!(depends(b"license=GPL\0depends=net-failover,virtio\0retpoline=Y\0"), ["net_failover", "virtio"]);
        assert_eq!(depends(b"depends=\0"), [""; 0]);
        assert_eq!(depends(b""), [""; 0]);
    }

    #[test]
    fn names_are_those_the_kernel_uses() {
        let name = |path: &str| name_of(Path::new(path));
        assert_eq!(name("kernel/drivers/char/hw_random/virtio-rng.ko"), Some("virtio_rng".into()));
        assert_eq!(name("kvm.ko.xz"), Some("kvm".into()));
        assert_eq!(name("modules.builtin"), None);
        assert_eq!(name("x.ko.gz"), None);
    }

    /// An unpacked package whose modules are none: enough for what is decided before they are read.
    fn package() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("lib/modules/6.1.0-9");
        std::fs::create_dir_all(folder.join("kernel/drivers")).unwrap();
        std::fs::write(folder.join("kernel/drivers/broken.ko"), "not a module").unwrap();
        std::fs::write(folder.join("modules.builtin"), "kernel/drivers/virtio/virtio-pci.ko\n").unwrap();
        root
    }

    #[test]
    fn what_is_built_in_needs_no_file_and_what_is_missing_is_named() {
        let root = package();
        let modules = Modules::of_package(root.path()).unwrap();
        assert_eq!(modules.in_order(&["virtio-pci", "virtio_pci"]).unwrap(), []);
        let error = modules.in_order(&["kvm"]).unwrap_err();
        assert!(matches!(&error, ModuleError::Missing { name, .. } if name == "kvm"), "{error}");
        let error = modules.in_order(&["broken"]).unwrap_err();
        assert!(matches!(error, ModuleError::NotModule { .. }), "{error}");
    }

    #[test]
    fn two_kernels_in_one_place_are_refused() {
        let root = package();
        std::fs::create_dir(root.path().join("lib/modules/6.1.0-10")).unwrap();
        let error = Modules::of_package(root.path()).unwrap_err();
        assert!(matches!(error, ModuleError::Kernels { .. }), "{error}");
    }
}
