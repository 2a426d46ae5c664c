//! Debian packages: the current version of each, and its files in the cache.
//!
//! The candidate version and its digest come from apt's index. apt has checked the index's signature. A package is
//! fetched by `apt-get download` and unpacked by `dpkg-deb --extract`. Neither needs root or changes what is installed.
//! Beside the files, the cache has a list of them with their digests, which is compared whenever they are used.

use crate::archive::Archive;
use crate::cache::{Cache, CacheError};
use crate::digest;
use crate::tool::{self, ToolError};
use crate::tree::{self, TreeError};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A package of one version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Digest of its file.
    pub sha256: String,
}

/// Why a package is not available.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// apt does not know the package.
    #[error("apt knows no package {0}: run `apt-get update` as root; or this is not a release of Debian that has it")]
    Unknown(String),
    /// The meta-package stands for no package of that kind.
    #[error("package {package} depends on no package {wanted}*")]
    NotMeta {
        /// The meta-package.
        package: String,
        /// How the name of the package should begin.
        wanted: &'static str,
    },
    /// The lists of a suite cannot be fetched.
    #[error("cannot fetch the package lists of suite {suite}: is Debian's archive in reach?")]
    Lists {
        /// The suite.
        suite: String,
        /// What apt said.
        #[source]
        source: ToolError,
    },
    /// This machine's apt does not use Debian's archive.
    #[error("apt's sources name no archive of Debian's, whose other suites could be used: this is not a Debian")]
    NotDebian,
    /// A program failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The package cannot be downloaded.
    #[error("cannot download package {name} {version}: is Debian's archive in reach, and `apt-get update` up to date?")]
    Download {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
        /// What apt said.
        #[source]
        source: ToolError,
    },
    /// The file that came has another digest than the index names.
    #[error("package {name} {version} came with SHA-256 {found}, but the index says {expected}: try again")]
    Digest {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
        /// The digest in the index.
        expected: String,
        /// The digest of the file.
        found: String,
    },
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// What was unpacked before is not to be trusted.
    #[error("package {package} cannot be taken from the cache")]
    Tree {
        /// The package.
        package: String,
        /// What is wrong.
        #[source]
        source: TreeError,
    },
    /// A file of the package cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
}

/// How the names of packages begin that have parts of a kernel: the kernel, the modules, and the table of what is built
/// in.
const KERNEL_PARTS: [&str; 3] = ["linux-binary-", "linux-modules-", "linux-base-"];

/// A stanza of apt's index.
#[derive(Debug, PartialEq, Eq)]
struct Stanza {
    package: Package,
    depends: String,
}

impl Archive {
    /// The candidate versions of packages, in the order asked for.
    pub fn find(&self, names: &[&str]) -> Result<Vec<Package>, PackageError> {
        Ok(self.show(names)?.into_iter().map(|stanza| stanza.package).collect())
    }

    /// The packages that a meta-package of a kernel stands for, such as `linux-image-6.1.0-9-amd64` for
    /// `linux-image-amd64`, and those with parts of that kernel: newer ones have the kernel and its modules in packages
    /// of their own.
    pub fn kernel(&self, meta: &str) -> Result<Vec<Package>, PackageError> {
        let image = dependencies(&self.show(&[meta])?, &["linux-image-"]).into_iter().next();
        let image = image.ok_or_else(|| PackageError::NotMeta { package: meta.to_owned(), wanted: "linux-image-" })?;
        let mut names = dependencies(&self.show(&[&image])?, &KERNEL_PARTS);
        // A kernel that has no such parts also depends on a package of tools that has one of their names.
        names.retain(|name| release_of(name) == release_of(&image));
        names.insert(0, image);
        self.find(&names.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// A package and all that it depends on, down to the C library.
    pub fn with_dependencies(&self, name: &str) -> Result<Vec<Package>, PackageError> {
        let mut plan = self.command("apt-get");
        // Of a suite of its own, for which nothing is installed.
        let plan = tool::output(plan.args(["install", "--simulate", "--no-install-recommends", name]), "apt")?;
        let plan = String::from_utf8_lossy(&plan);
        self.find(&to_be_installed(&plan))
    }

    /// The packages that a package depends on. Of alternatives the first that apt knows; names of no package are left
    /// out.
    pub(crate) fn depends_of(&self, name: &str) -> Result<Vec<Package>, PackageError> {
        let mut all = Vec::new();
        for alternatives in self.show(&[name])?.iter().flat_map(|stanza| alternatives(&stanza.depends)) {
            for name in alternatives {
                match self.find(&[&name]) {
                    Ok(found) => {
                        all.extend(found);
                        break;
                    }
                    Err(PackageError::Unknown(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(all)
    }

    fn show(&self, names: &[&str]) -> Result<Vec<Stanza>, PackageError> {
        let unknown = |name: &str| PackageError::Unknown(name.to_owned());
        let mut cache = self.command("apt-cache");
        let text = match tool::output(cache.args(["show", "--no-all-versions"]).args(names), "apt") {
            Ok(text) => text,
            Err(ToolError::Failed { .. }) => return Err(unknown(&names.join(" or "))),
            Err(error) => return Err(error.into()),
        };
        let stanzas = parse(&String::from_utf8_lossy(&text));
        let place = |name: &&str| stanzas.iter().position(|stanza| stanza.package.name == **name);
        if let Some(name) = names.iter().find(|name| place(name).is_none()) {
            return Err(unknown(name));
        }
        let mut found: Vec<Stanza> =
            stanzas.into_iter().filter(|stanza| names.contains(&stanza.package.name.as_str())).collect();
        found.sort_by_key(|stanza| names.iter().position(|name| *name == stanza.package.name));
        found.dedup_by(|a, b| a.package.name == b.package.name);
        Ok(found)
    }
}

/// The packages that these depend on and whose names begin so.
fn dependencies(stanzas: &[Stanza], beginnings: &[&str]) -> Vec<String> {
    let depends = stanzas.iter().flat_map(|stanza| stanza.depends.split(','));
    let names = depends.filter_map(|item| item.split_whitespace().next());
    names.filter(|name| beginnings.iter().any(|begin| name.starts_with(begin))).map(str::to_owned).collect()
}

/// The names in a list of dependencies: for each the alternatives, without versions.
fn alternatives(depends: &str) -> Vec<Vec<String>> {
    let name = |item: &str| item.split_whitespace().next().map(|name| name.trim_end_matches(":any").to_owned());
    let group = |group: &str| group.split('|').filter_map(name).collect();
    depends.split(',').map(group).filter(|names: &Vec<String>| !names.is_empty()).collect()
}

/// The packages that a simulation of apt's would install.
fn to_be_installed(plan: &str) -> Vec<&str> {
    plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split_whitespace().next()).collect()
}

/// The release in the name of a kernel's package: `6.1.0-9-amd64` in `linux-image-6.1.0-9-amd64`.
fn release_of(name: &str) -> Option<&str> {
    name.splitn(3, '-').nth(2)
}

fn parse(text: &str) -> Vec<Stanza> {
    let stanza = |text: &str| {
        let field = |name: &str| {
            let value = |line: &str| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned());
            text.lines().find_map(value)
        };
        let package = Package { name: field("Package")?, version: field("Version")?, sha256: field("SHA256")? };
        Some(Stanza { package, depends: field("Depends").unwrap_or_default() })
    };
    text.split("\n\n").filter_map(stanza).collect()
}

impl Package {
    /// The folder with the package's files, as from the root of a file system. Fetches and unpacks them if they are not
    /// there yet, which `tell` is told before. Files that are there are compared with what the package brought.
    pub fn files(&self, archive: &Archive, cache: &Cache, tell: &mut dyn FnMut(&str)) -> Result<PathBuf, PackageError> {
        let name = self.place();
        let tree = |source| PackageError::Tree { package: self.to_string(), source };
        let entry = cache.path(&name);
        // A link that leads nowhere is there as well.
        if entry.symlink_metadata().is_ok() {
            return tree::check(&entry).map_err(tree);
        }
        tell(&format!("fetching {self}"));
        let workshop = cache.workshop()?;
        let file = self.download(archive, workshop.path())?;
        let entry = workshop.path().join("entry");
        let unpacked = entry.join(tree::FILES);
        std::fs::create_dir(&entry).map_err(|source| PackageError::Read { path: entry.clone(), source })?;
        tool::output(Command::new("dpkg-deb").arg("--extract").arg(file).arg(&unpacked), "dpkg")?;
        tree::seal(&entry).map_err(tree)?;
        tree::check(&cache.put_folder(&entry, &name)?).map_err(tree)
    }

    /// Its folder in the cache. Versions contain colons, which some file systems refuse.
    fn place(&self) -> String {
        let digest = self.sha256.get(..12).unwrap_or(&self.sha256);
        format!("unpacked/{}_{}_{digest}", self.name, self.version.replace(':', "%3a"))
    }

    fn download(&self, archive: &Archive, folder: &Path) -> Result<PathBuf, PackageError> {
        let Self { name, version, .. } = self;
        let mut apt = archive.command("apt-get");
        apt.current_dir(folder).args(["--quiet", "download", &format!("{name}={version}")]);
        tool::output(&mut apt, "apt").map_err(|source| match source {
            ToolError::Failed { .. } => PackageError::Download { name: name.clone(), version: version.clone(), source },
            other => other.into(),
        })?;
        let read = |source| PackageError::Read { path: folder.to_owned(), source };
        let entries = std::fs::read_dir(folder).map_err(read)?;
        let is_archive = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "deb");
        let file = entries.filter_map(|entry| Some(entry.ok()?.path())).find(is_archive);
        let file = file.ok_or_else(|| read(std::io::ErrorKind::NotFound.into()))?;
        let found = digest::of_file(&file).map_err(read)?;
        if found != self.sha256 {
            let expected = self.sha256.clone();
            return Err(PackageError::Digest { name: name.clone(), version: version.clone(), expected, found });
        }
        Ok(file)
    }
}

impl std::fmt::Display for Package {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "\
Package: linux-image-amd64
Version: 6.1.5-1
Depends: linux-image-6.1.0-9-amd64 (= 6.1.5-1)
Description-en: Linux for 64-bit PCs (meta-package)
 Package: not a field
SHA256: aa

Package: busybox-static
Version: 1:1.35.0-4
SHA256: bb

";

    #[test]
    fn stanzas_are_read_and_what_is_incomplete_is_left_out() {
        let stanzas = parse(INDEX);
        let [meta, busybox] = &stanzas[..] else { panic!("{stanzas:?}") };
        assert_eq!(meta.package.name, "linux-image-amd64");
        assert!(meta.depends.starts_with("linux-image-6.1.0-9-amd64"));
        assert_eq!(busybox.package.to_string(), "busybox-static 1:1.35.0-4");
        assert_eq!(parse("Package: half\n"), []);
    }

    #[test]
    fn the_parts_of_a_kernel_are_those_of_its_release() {
        let depends = "kmod, linux-base (>= 4.3), linux-binary-7.2+deb14-amd64 (= 7.2-1), linux-base-7.2+deb14-amd64";
        let package = Package { name: "linux-image-7.2+deb14-amd64".into(), version: "1".into(), sha256: "0".into() };
        let parts = dependencies(&[Stanza { package, depends: depends.into() }], &KERNEL_PARTS);
        assert_eq!(parts, ["linux-binary-7.2+deb14-amd64", "linux-base-7.2+deb14-amd64"]);
        assert!(parts.iter().all(|part| release_of(part) == Some("7.2+deb14-amd64")));
        assert_eq!(release_of("linux-image-6.1.0-9-amd64"), Some("6.1.0-9-amd64"));
    }

    #[test]
    fn dependencies_have_alternatives_and_versions() {
        let depends = "libaio1 (>= 0.3.93), libluajit2-5.1-2 | libluajit-5.1-2, python3:any";
        assert_eq!(alternatives(depends), [&["libaio1"][..], &["libluajit2-5.1-2", "libluajit-5.1-2"], &["python3"]]);
        assert!(alternatives("").is_empty());
    }

    #[test]
    fn a_plan_names_what_is_to_be_installed() {
        let plan = "Reading...\nInst libc6 (2.41-12 Debian:13/stable [amd64])\nConf libc6 (2.41-12)\nInst qemu (1:1)\n";
        assert_eq!(to_be_installed(plan), ["libc6", "qemu"]);
    }

    #[test]
    fn the_place_in_the_cache_names_version_and_content() {
        let sha256 = "0123456789abcdef".to_owned();
        let package = Package { name: "a".into(), version: "1:2".into(), sha256 };
        assert_eq!(package.place(), "unpacked/a_1%3a2_0123456789ab");
    }

    #[test]
    fn what_is_in_the_cache_is_not_fetched_again_and_not_used_once_it_was_changed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().to_owned());
        let package = Package { name: "no-such-package".into(), version: "1".into(), sha256: "00".into() };
        let entry = cache.path(&package.place());
        let program = entry.join(tree::FILES).join("bin/busybox");
        std::fs::create_dir_all(program.parent().unwrap()).unwrap();
        std::fs::write(&program, "busybox").unwrap();
        tree::seal(&entry).unwrap();
        let files = || package.files(&Archive::of_machine(), &cache, &mut |what: &str| panic!("{what}"));
        assert_eq!(files().unwrap(), entry.join(tree::FILES));
        std::fs::write(&program, "planted").unwrap();
        let error = files().unwrap_err();
        assert!(matches!(&error, PackageError::Tree { source: TreeError::Changed { .. }, .. }), "{error:?}");
    }
}
