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

/// The folders of kernels' modules, from the root: that of older packages, and that of newer ones.
const PLACES: [&str; 2] = ["lib/modules", "usr/lib/modules"];

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
    #[error("{roots:?} should have the modules of one kernel")]
    Kernels {
        /// Where a kernel's packages are unpacked.
        roots: Vec<PathBuf>,
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
    /// The modules of the one kernel whose packages are unpacked at these roots.
    pub fn of_packages(roots: &[PathBuf]) -> Result<Self, ModuleError> {
        let (mut files, mut builtin) = (BTreeMap::new(), BTreeSet::new());
        let folders = folders(roots)?;
        let Some(folder) = folders.first().cloned() else { return Err(ModuleError::Kernels { roots: roots.to_vec() }) };
        for folder in folders {
            add_files(&folder, &mut files)?;
            let list = folder.join("modules.builtin");
            match std::fs::read_to_string(&list) {
                Ok(text) => builtin.extend(text.lines().filter_map(|line| name_of(Path::new(line)))),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(ModuleError::Read { path: list, source }),
            }
        }
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

/// The folders, one of each package that has any, of the one kernel that these packages are of.
fn folders(roots: &[PathBuf]) -> Result<Vec<PathBuf>, ModuleError> {
    let mut all = Vec::new();
    for kernels in roots.iter().flat_map(|root| PLACES.map(|place| root.join(place))) {
        if kernels.is_dir() {
            all.extend(entries(&kernels)?);
        }
    }
    let releases: BTreeSet<_> = all.iter().map(|folder| folder.file_name()).collect();
    match releases.len() {
        1 => Ok(all),
        _ => Err(ModuleError::Kernels { roots: roots.to_vec() }),
    }
}

/// Adds the files of all modules in a kernel's folder, which may have none.
fn add_files(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<(), ModuleError> {
    let mut open: Vec<_> = [folder.join("kernel")].into_iter().filter(|path| path.is_dir()).collect();
    while let Some(path) = open.pop() {
        for path in entries(&path)? {
            match name_of(&path) {
                _ if path.is_dir() => open.push(path),
                Some(name) => drop(files.insert(name, path)),
                None => {}
            }
        }
    }
    Ok(())
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
        let modules = Modules::of_packages(&[root.path().to_owned()]).unwrap();
        assert_eq!(modules.in_order(&["virtio-pci", "virtio_pci"]).unwrap(), []);
        let error = modules.in_order(&["kvm"]).unwrap_err();
        assert!(matches!(&error, ModuleError::Missing { name, .. } if name == "kvm"), "{error}");
        let error = modules.in_order(&["broken"]).unwrap_err();
        assert!(matches!(error, ModuleError::NotModule { .. }), "{error}");
    }

    #[test]
    fn a_kernel_may_be_in_several_packages() {
        let (root, other) = (package(), tempfile::tempdir().unwrap());
        let folder = other.path().join("usr/lib/modules/6.1.0-9/kernel");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("more.ko"), "not a module").unwrap();
        let modules = Modules::of_packages(&[other.path().to_owned(), root.path().to_owned()]).unwrap();
        assert_eq!(modules.files.keys().collect::<Vec<_>>(), ["broken", "more"]);
        assert!(modules.builtin.contains("virtio_pci"));
    }

    #[test]
    fn two_kernels_in_one_place_are_refused() {
        let root = package();
        std::fs::create_dir(root.path().join("lib/modules/6.1.0-10")).unwrap();
        let error = Modules::of_packages(&[root.path().to_owned()]).unwrap_err();
        assert!(matches!(error, ModuleError::Kernels { .. }), "{error}");
    }
}
