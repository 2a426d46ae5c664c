//! The Linux guest of `stile guest build linux`: Debian's cloud kernel as shipped, and an initramfs of our first
//! process with busybox, the benchmarks that suites run, and the drivers of the devices that stile has.
//!
//! The large image ([`ImageKind::Large`]) has more programs, whose libraries are some 40 MB.
//!
//! It is made anew only when something it is made of has changed: a package's version, the first process, or this
//! crate's instructions. What was made before is trusted only as far as its digests hold.

use crate::archive::Archive;
use crate::cache::{Cache, CacheError};
use crate::checks::{self, ImageError};
use crate::digest;
use crate::initramfs::{CopyError, DATA, Initramfs, PROGRAM};
use crate::kernel::{self, Kernel};
use crate::libraries::LibraryError;
use crate::links::{self, LinksError};
use crate::manifest::{self, Inputs, Manifest};
use crate::modules::{Module, ModuleError, Modules};
use crate::packages::{Package, PackageError};
use crate::tool::{self, ToolError};
use crate::trust::{self, Untrusted};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The meta-package of the kernel.
const KERNEL: &str = "linux-image-cloud-amd64";
/// The packages that files come from, those of shared libraries last.
const PACKAGES: [&str; 8] = ["busybox-static", "rt-tests", "dbench", "pigz", "libc6", "libnuma1", "libpopt0", "zlib1g"];
/// Packages of the large image's other programs. Those of their libraries follow from them ([`links`]).
const LARGE_PACKAGES: [&str; 2] = ["stress-ng", "sysbench"];
/// Programs, by package and path in it, which is their path in the guest but for the first `usr`.
const PROGRAMS: [(&str, &str); 6] = [
    ("rt-tests", "usr/bin/hackbench"),
    ("rt-tests", "usr/bin/cyclictest"),
    ("dbench", "usr/bin/dbench"),
    ("dbench", "usr/bin/tbench"),
    ("dbench", "usr/bin/tbench_srv"),
    ("pigz", "usr/bin/pigz"),
];
/// The other programs of the large image.
const LARGE_PROGRAMS: [(&str, &str); 2] = [("stress-ng", "usr/bin/stress-ng"), ("sysbench", "usr/bin/sysbench")];
/// What clients of tbench send, by package and path in it; in the guest with `.gz` behind, for its 25 MB would make
/// every guest larger and slower to start.
const CLIENTS: (&str, &str) = ("dbench", "usr/share/dbench/client.txt");
/// Drivers that are always loaded: they find the devices.
const BUS: [&str; 1] = ["virtio_mmio"];
/// Kinds of virtio devices, by number, and their driver.
const DRIVERS: [(u32, &str); 5] = [
    (1, "virtio_net"),
    (2, "virtio_blk"),
    (3, "virtio_console"),
    (4, "virtio_rng"),
    (19, "vmw_vsock_virtio_transport"),
];
/// Drivers that are loaded while the guest works already: of the power button, and of the file that tells its presses.
const LATER: [&str; 2] = ["button", "evdev"];
/// The instructions, whose change makes another image.
const RECIPE: [&str; 6] = [
    include_str!("guest.rs"),
    include_str!("initramfs.rs"),
    include_str!("kernel.rs"),
    include_str!("libraries.rs"),
    include_str!("links.rs"),
    include_str!("modules.rs"),
];

/// Names of an image's files.
pub(crate) const KERNEL_FILE: &str = "vmlinuz";
pub(crate) const INITRAMFS_FILE: &str = "initramfs.cpio";

/// Which programs an image has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageKind {
    /// Few and small ones.
    Usual,
    /// All.
    Large,
}

impl ImageKind {
    /// Both kinds.
    pub const ALL: [Self; 2] = [Self::Usual, Self::Large];

    /// Its name on command lines and in the cache.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usual => "linux",
            Self::Large => "linux-large",
        }
    }

    /// Where images of this kind are, unless the user names a folder.
    pub fn folder(self, cache: &Cache) -> PathBuf {
        cache.path(&format!("guests/{}", self.name()))
    }

    /// Packages of its programs, and of shared libraries.
    fn packages(self) -> Vec<&'static str> {
        match self {
            Self::Usual => PACKAGES.to_vec(),
            Self::Large => [&PACKAGES[..], &LARGE_PACKAGES].concat(),
        }
    }

    /// Its programs.
    fn programs(self) -> Vec<(&'static str, &'static str)> {
        match self {
            Self::Usual => PROGRAMS.to_vec(),
            Self::Large => [&PROGRAMS[..], &LARGE_PROGRAMS].concat(),
        }
    }
}

/// An image, and whether it had to be made.
#[derive(Debug, Clone)]
pub struct Built {
    /// The image.
    pub image: Image,
    /// It was made just now, not reused.
    pub made: bool,
}

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A package cannot be had.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// A package has no such file: it is of a release that this recipe does not know.
    #[error("package {package} has no {path}: the recipe is for Debian 12 to 14")]
    Layout {
        /// The package.
        package: String,
        /// The file.
        path: String,
    },
    /// A driver cannot be had.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// A shared library is in none of the packages.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// The libraries of a program cannot be had.
    #[error(transparent)]
    Links(#[from] LinksError),
    /// A file of a package cannot be read.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// busybox does not say what it can do.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// Others may write where the image is to be.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// The image cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// What.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
}

/// A kernel and its initramfs.
#[derive(Debug, Clone)]
pub struct Image {
    folder: PathBuf,
    manifest: Manifest,
}

impl Image {
    /// The image in a folder, if it is whole and nobody but the user and root can have written it.
    pub fn open(folder: &Path) -> Result<Self, ImageError> {
        let manifest = checks::whole(folder)?;
        Ok(Self { folder: folder.to_owned(), manifest })
    }

    /// The kernel, a bzImage.
    pub fn kernel(&self) -> PathBuf {
        self.folder.join(KERNEL_FILE)
    }

    /// The initramfs.
    pub fn initramfs(&self) -> PathBuf {
        self.folder.join(INITRAMFS_FILE)
    }

    /// The list of both with their digests.
    pub fn manifest(&self) -> PathBuf {
        self.folder.join(manifest::FILE)
    }

    /// The kernel's release, such as `6.1.0-9-cloud-amd64`.
    pub fn release(&self) -> &str {
        &self.manifest.release
    }

    /// Whether it would be made of the same again: of these inputs, and of the current versions of the packages that
    /// were found to be needed besides.
    fn is_current(&self, inputs: &Inputs, archive: &Archive) -> bool {
        let own = &self.manifest.inputs;
        let Some(besides) = own.packages.strip_prefix(&inputs.packages[..]) else { return false };
        let names: Vec<&str> = besides.iter().map(|package| package.name.as_str()).collect();
        let is_same = || names.is_empty() || archive.find(&names).is_ok_and(|current| current == besides);
        own.recipe == inputs.recipe && own.init == inputs.init && is_same()
    }

    /// The packages that it was made of.
    pub fn packages(&self) -> &[Package] {
        &self.manifest.inputs.packages
    }
}

/// Makes the image of an archive's packages in a folder, or finds it there; tells what takes time.
pub fn build(
    kind: ImageKind,
    archive: &Archive,
    cache: &Cache,
    folder: &Path,
    tell: &mut dyn FnMut(&str),
) -> Result<Built, BuildError> {
    let sources = Sources::find(kind, archive)?;
    let mut inputs = sources.inputs();
    match Image::open(folder) {
        Ok(image) if image.is_current(&inputs, archive) => return Ok(Built { image, made: false }),
        // What others may write they may write again. A damaged image is made anew.
        Err(ImageError::Untrusted(source @ (Untrusted::Writable { .. } | Untrusted::Owner { .. }))) => {
            return Err(source.into());
        }
        Ok(_) | Err(_) => {}
    }
    let unpacked = sources.unpack(archive, cache, tell)?;
    let programs = unpacked.programs(kind)?;
    let files: Vec<PathBuf> = programs.iter().map(|(_, file)| file.clone()).collect();
    let links = links::of_programs(&files, &unpacked.others, archive, cache, tell)?;
    inputs.packages.extend(links.packages);
    tell("making the image");
    let kernel = kernel::of_packages(&unpacked.kernel).ok_or_else(|| layout(KERNEL, "boot/vmlinuz-*"))?;
    let root = root(&unpacked, &programs, &links.libraries)?;
    let manifest = write(folder, kernel, &root, inputs)?;
    Ok(Built { image: Image { folder: folder.to_owned(), manifest }, made: true })
}

/// The packages in the versions that are current.
struct Sources {
    /// The kernel's parts.
    kernel: Vec<Package>,
    others: Vec<Package>,
}

/// Where they are unpacked.
struct Unpacked {
    kernel: Vec<PathBuf>,
    others: BTreeMap<String, PathBuf>,
}

impl Sources {
    fn find(kind: ImageKind, archive: &Archive) -> Result<Self, PackageError> {
        Ok(Self { kernel: archive.kernel(KERNEL)?, others: archive.find(&kind.packages())? })
    }

    fn inputs(&self) -> Inputs {
        let packages = self.kernel.iter().chain(&self.others).cloned().collect();
        let recipe = digest::of_bytes(RECIPE.concat().as_bytes());
        Inputs { recipe, init: digest::of_bytes(stile_guest_images::LINUX_INIT), packages }
    }

    fn unpack(&self, archive: &Archive, cache: &Cache, tell: &mut dyn FnMut(&str)) -> Result<Unpacked, PackageError> {
        let mut files = |package: &Package| package.files(archive, cache, tell);
        let kernel = self.kernel.iter().map(&mut files).collect::<Result<_, _>>()?;
        let mut named = |package: &Package| Ok((package.name.clone(), files(package)?));
        let others = self.others.iter().map(&mut named).collect::<Result<_, PackageError>>()?;
        Ok(Unpacked { kernel, others })
    }
}

impl Unpacked {
    /// A file of a package.
    fn file(&self, package: &str, path: &str) -> Result<PathBuf, BuildError> {
        // Newer packages have all programs and libraries below `usr`.
        let folder = self.others.get(package);
        let mut files = folder.into_iter().flat_map(|folder| [folder.join(path), folder.join("usr").join(path)]);
        files.find(|file| file.is_file()).ok_or_else(|| layout(package, path))
    }

    /// The programs of a kind of image, each with its path in the guest.
    fn programs(&self, kind: ImageKind) -> Result<Vec<(&'static str, PathBuf)>, BuildError> {
        let one = |(package, path): (&str, &'static str)| {
            Ok((path.strip_prefix("usr").unwrap_or(path), self.file(package, path)?))
        };
        kind.programs().into_iter().map(one).collect()
    }
}

fn layout(package: &str, path: &str) -> BuildError {
    BuildError::Layout { package: package.to_owned(), path: path.to_owned() }
}

fn root(
    unpacked: &Unpacked,
    programs: &[(&'static str, PathBuf)],
    libraries: &BTreeMap<String, PathBuf>,
) -> Result<Initramfs, BuildError> {
    let mut root = Initramfs::new();
    root.file("/init", PROGRAM, stile_guest_images::LINUX_INIT);
    for folder in ["/proc", "/sys", "/tmp"] {
        root.folder(folder);
    }
    add_busybox(&mut root, &unpacked.file("busybox-static", "bin/busybox")?)?;
    for (path, file) in programs {
        root.copy(path, PROGRAM, file)?;
    }
    for (path, library) in libraries {
        root.copy(path, PROGRAM, library)?;
    }
    let clients = unpacked.file(CLIENTS.0, CLIENTS.1)?;
    let clients = tool::output(Command::new("gzip").args(["--no-name", "--stdout"]).arg(clients), "gzip")?;
    root.file(&format!("/{}.gz", CLIENTS.1), DATA, clients);
    add_drivers(&mut root, &Modules::of_packages(&unpacked.kernel)?)?;
    Ok(root)
}

/// busybox under all its names, which it knows itself.
fn add_busybox(root: &mut Initramfs, busybox: &Path) -> Result<(), BuildError> {
    root.copy("/bin/busybox", PROGRAM, busybox)?;
    let names = tool::output(Command::new(busybox).arg("--list"), "busybox-static")?;
    for name in String::from_utf8_lossy(&names).lines().filter(|name| *name != "busybox") {
        root.link(&format!("/bin/{name}"), "busybox");
    }
    Ok(())
}

/// Modules, and the first process' table of them: path, and when each is needed.
fn add_drivers(root: &mut Initramfs, modules: &Modules) -> Result<(), BuildError> {
    let bus = modules.in_order(&BUS)?;
    let mut drivers: Vec<(Module, Vec<u32>)> = Vec::new();
    for (device, driver) in DRIVERS {
        for module in modules.in_order(&[driver])?.into_iter().filter(|module| !bus.contains(module)) {
            match drivers.iter_mut().find(|(known, _)| *known == module) {
                Some((_, devices)) => devices.push(device),
                None => drivers.push((module, vec![device])),
            }
        }
    }
    let is_new = |module: &Module| !bus.contains(module) && drivers.iter().all(|(known, _)| known != module);
    let later: Vec<Module> = modules.in_order(&LATER)?.into_iter().filter(is_new).collect();
    let bus = bus.into_iter().map(|module| (module, String::new()));
    let drivers = drivers.into_iter().map(|(module, devices)| {
        let devices: String = devices.iter().map(|device| format!(" {device}")).collect();
        (module, devices)
    });
    let later = later.into_iter().map(|module| (module, " later".to_owned()));
    let mut table = String::new();
    for (module, needed) in bus.chain(drivers).chain(later) {
        let path = format!("/lib/modules/{}.ko", module.name);
        table += &format!("{path}{needed}\n");
        root.file(&path, DATA, module.bytes);
    }
    root.file("/lib/modules/table", DATA, table);
    Ok(())
}

/// Puts the image into its folder. The manifest comes last, so that an image that was not finished is none.
fn write(folder: &Path, kernel: Kernel, root: &Initramfs, inputs: Inputs) -> Result<Manifest, BuildError> {
    let write = |source| BuildError::Write { path: folder.to_owned(), source };
    let mut archive = Vec::new();
    root.write(&mut archive).map_err(write)?;
    let Kernel { file, release } = kernel;
    let kernel = std::fs::read(&file).map_err(|source| BuildError::Write { path: file, source })?;
    let contents = [(KERNEL_FILE, kernel), (INITRAMFS_FILE, archive)];
    let files = contents.iter().map(|(name, bytes)| ((*name).to_owned(), digest::of_bytes(bytes))).collect();
    let manifest = Manifest { release, inputs, files };

    // Whatever others may do by default in what the user makes.
    DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(write)?;
    trust::check_folder(folder)?;
    let workshop = tempfile::Builder::new().prefix(".making-").tempdir_in(folder).map_err(write)?;
    manifest.write(workshop.path()).map_err(write)?;
    for (name, bytes) in contents {
        std::fs::write(workshop.path().join(name), bytes).map_err(write)?;
    }
    for name in [KERNEL_FILE, INITRAMFS_FILE, manifest::FILE] {
        std::fs::set_permissions(workshop.path().join(name), Permissions::from_mode(0o644)).map_err(write)?;
        std::fs::rename(workshop.path().join(name), folder.join(name)).map_err(write)?;
    }
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_once_it_is_whole_and_no_longer_when_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("vmlinuz-6.1.0-9-cloud-amd64");
        std::fs::write(&kernel, "kernel").unwrap();
        let kernel = Kernel { file: kernel, release: "6.1.0-9-cloud-amd64".into() };
        let out = folder.path().join("out");
        assert!(Image::open(&out).is_err());
        let inputs = Inputs { recipe: "r".into(), init: "i".into(), packages: Vec::new() };
        write(&out, kernel, &Initramfs::new(), inputs).unwrap();
        let image = Image::open(&out).unwrap();
        assert_eq!(image.release(), "6.1.0-9-cloud-amd64");
        assert_eq!(std::fs::read(image.kernel()).unwrap(), b"kernel");
        std::fs::write(image.initramfs(), "damaged").unwrap();
        assert!(matches!(Image::open(&out), Err(ImageError::Changed { .. })));
    }
}
