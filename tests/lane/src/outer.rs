//! The outer system: the kernel and the initramfs that the emulated machine boots.
//!
//! The kernel is Debian's stock kernel, with its modules for SVM or VMX. The root has busybox, stile with its shared
//! libraries, and the tests with their needs. The first process is the script `init`, which runs the tests in the order
//! of `/lane/order`.

use crate::emulator::Kind;
use crate::programs::{self, Profile, ProgramError, Programs};
use crate::script::{Need, Script};
use crate::suites::Suite;
use std::path::{Path, PathBuf};
use stile_linux_images::cache::CacheError;
use stile_linux_images::guest::{self, BuildError};
use stile_linux_images::initramfs::{CopyError, DATA, Initramfs, PROGRAM};
use stile_linux_images::libraries::{self, LibraryError};
use stile_linux_images::modules::{ModuleError, Modules};
use stile_linux_images::packages::PackageError;
use stile_linux_images::{Archive, Cache, ImageKind, kernel, manifest};
use tempfile::TempDir;

/// The meta-package of the stock kernel.
const KERNEL: &str = "linux-image-amd64";
/// The module that gives taps.
const TAPS: &str = "tun";
/// The shell and all other programs of the root.
const BUSYBOX: &str = "busybox-static";
/// The first process.
const INIT: &str = include_str!("init.sh");
/// Files that QEMU's microvm machine needs besides the program: its firmware, and the loader of a kernel.
const FIRMWARE: [&str; 3] =
    ["/usr/share/qemu/bios-microvm.bin", "/usr/share/qemu/linuxboot_dma.bin", "/usr/share/qemu/pvh.bin"];
/// The script that tests with Linux guests share.
const LINUX_TESTS: &str = include_str!("../linux.sh");

/// A system to boot. Dropping it removes its files.
#[derive(Debug)]
pub(crate) struct OuterSystem {
    kernel: PathBuf,
    /// stile as it is in the system.
    stile: PathBuf,
    folder: TempDir,
}

/// Why a system cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OuterError {
    /// A package cannot be fetched.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// The kernel's modules cannot be loaded.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// The kernel's packages do not have exactly one kernel.
    #[error("{0:?} should have one kernel")]
    NoKernel(Vec<PathBuf>),
    /// This tree's programs are missing.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A shared library is missing.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A file cannot be read.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The Linux guest cannot be made.
    #[error(transparent)]
    Guest(#[from] BuildError),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The initramfs cannot be written.
    #[error("cannot write the outer system's initramfs")]
    Write(#[source] std::io::Error),
}

impl OuterError {
    /// Whether something is missing that a machine need not have: Debian's packages.
    pub(crate) fn is_absence(&self) -> bool {
        matches!(self, Self::Package(_) | Self::Guest(BuildError::Package(_)))
    }
}

impl OuterSystem {
    /// Its kernel.
    pub(crate) fn kernel(&self) -> &Path {
        &self.kernel
    }

    /// stile as it is in the system, but where it was built.
    pub(crate) fn stile(&self) -> &Path {
        &self.stile
    }

    /// Its initramfs.
    pub(crate) fn initramfs(&self) -> PathBuf {
        self.folder.path().join("initramfs.cpio")
    }

    /// Its folder, where the machine's files may be as well.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// The parts that a system is made of.
#[derive(Debug)]
pub(crate) struct Contents<'a> {
    /// The machine that it is for.
    pub(crate) kind: Kind,
    /// Whose kernel it has.
    pub(crate) outer: Suite,
    /// The tests that it runs.
    pub(crate) scripts: &'a [Script],
    /// How programs are built.
    pub(crate) profile: Profile,
    /// Features with which stile is built as well.
    pub(crate) features: Option<&'a str>,
    /// QEMU, for tests that need it.
    pub(crate) qemu: Option<&'a Path>,
    /// Whether the machine has a disk for results.
    pub(crate) has_disk: bool,
    /// The kernel of inner guests, if not Debian's.
    pub(crate) guest_kernel: Option<&'a Path>,
}

/// Makes a system, and reports steps that take time.
pub(crate) fn make(contents: &Contents<'_>, tell: &mut dyn FnMut(&str)) -> Result<OuterSystem, OuterError> {
    let &Contents { kind, outer, scripts, profile, features, qemu, has_disk, guest_kernel } = contents;
    let cache = Cache::of_user()?;
    let (own, archive) = (Archive::of_machine(), outer.archive(&cache, tell)?);
    let packages = archive.kernel(KERNEL)?;
    let packages =
        packages.iter().map(|package| package.files(&archive, &cache, tell)).collect::<Result<Vec<_>, _>>()?;
    let Some(kernel) = kernel::of_packages(&packages) else { return Err(OuterError::NoKernel(packages)) };
    tell(&format!("the outer system is Linux {}", kernel.release));
    let busybox = own.find(&[BUSYBOX])?.remove(0).files(&own, &cache, tell)?;
    let folder = tempfile::Builder::new().prefix("hardware-lane-").tempdir().map_err(OuterError::Write)?;

    let mut root = Initramfs::new();
    root.file("/init", PROGRAM, INIT);
    root.copy("/bin/busybox", PROGRAM, &busybox.join("bin/busybox"))?;
    let mut modules = vec![kind.kvm_module()];
    // Whatever the machine does not need makes its boot longer.
    modules.extend(if has_disk { kind.disk_modules() } else { &[TAPS] });
    add_modules(&mut root, &packages, &modules, kind)?;
    for (need, image) in [(Need::LinuxGuest, ImageKind::Usual), (Need::LargeLinuxGuest, ImageKind::Large)] {
        if is_needed(need, scripts) {
            add_linux_guest(&mut root, image, &cache, guest_kernel, tell)?;
        }
    }
    tell("building stile and its tests");
    let qemu = if is_needed(Need::Qemu, scripts) {
        add_firmware(&mut root)?;
        qemu
    } else {
        None
    };
    let programs = programs::build(profile, features, is_needed(Need::WholeVmTests, scripts))?;
    let stile = programs.stile.clone();
    add_programs(&mut root, programs, qemu, folder.path())?;
    add_scripts(&mut root, scripts);

    let system = OuterSystem { kernel: kernel.file, stile, folder };
    let file = std::fs::File::create(system.initramfs()).map_err(OuterError::Write)?;
    root.write(std::io::BufWriter::new(file)).map_err(OuterError::Write)?;
    Ok(system)
}

/// The modules, and the list of their files with their options in the order of loading.
fn add_modules(root: &mut Initramfs, packages: &[PathBuf], names: &[&str], kind: Kind) -> Result<(), OuterError> {
    let mut list = String::new();
    // Those that they depend on are added.
    for module in Modules::of_packages(packages)?.in_order(names)? {
        let path = format!("/lane/modules/{}.ko", module.name);
        list += &format!("{path} {}\n", kind.module_options(&module.name));
        root.file(&path, DATA, module.bytes);
    }
    root.file("/lane/modules/order", DATA, list);
    Ok(())
}

fn is_needed(need: Need, scripts: &[Script]) -> bool {
    scripts.iter().any(|script| script.needs.contains(&need))
}

/// The inner guest, and its first process again, as a program that checks the data that guests wrote.
fn add_linux_guest(
    root: &mut Initramfs,
    image: ImageKind,
    cache: &Cache,
    kernel: Option<&Path>,
    tell: &mut dyn FnMut(&str),
) -> Result<(), OuterError> {
    let folder = format!("/lane/{}", image.name());
    let image = guest::build(image, &Archive::of_machine(), cache, &image.folder(cache), tell)?.image;
    root.copy(&format!("{folder}/vmlinuz"), DATA, kernel.unwrap_or(&image.kernel()))?;
    root.copy(&format!("{folder}/initramfs.cpio"), DATA, &image.initramfs())?;
    if kernel.is_none() {
        // Which holds for both files.
        root.copy(&format!("{folder}/{}", manifest::FILE), DATA, &image.manifest())?;
    }
    root.file("/lane/linux/init", PROGRAM, stile_guest_images::LINUX_INIT);
    root.file("/lane/linux.sh", DATA, LINUX_TESTS);
    Ok(())
}

fn add_firmware(root: &mut Initramfs) -> Result<(), OuterError> {
    FIRMWARE.iter().try_for_each(|file| Ok(root.copy(file, DATA, Path::new(file))?))
}

fn add_programs(
    root: &mut Initramfs,
    programs: Programs,
    qemu: Option<&Path>,
    folder: &Path,
) -> Result<(), OuterError> {
    let mut all =
        vec![("/usr/bin/stile".to_owned(), programs.stile), ("/lane/companion".to_owned(), programs.companion)];
    all.extend(programs.whole_vm.into_iter().map(|(name, path)| (format!("/lane/whole-vm/{name}"), path)));
    all.extend(qemu.map(|qemu| ("/usr/bin/qemu-system-x86_64".to_owned(), qemu.to_owned())));
    for (path, program) in &all {
        root.file(path, PROGRAM, programs::stripped(program, folder)?);
    }
    let files: Vec<PathBuf> = all.into_iter().map(|(_, program)| program).collect();
    for (path, library) in libraries::of_programs(&files, &["/".into()])? {
        root.copy(&path, PROGRAM, &library)?;
    }
    Ok(())
}

/// The tests, and a line for each: its name and its limit in seconds.
fn add_scripts(root: &mut Initramfs, scripts: &[Script]) {
    let mut order = String::new();
    for script in scripts {
        root.file(&format!("/lane/tests/{}", script.name), PROGRAM, script.text.clone());
        order += &format!("{} {}\n", script.name, script.limit.as_secs());
    }
    root.file("/lane/order", DATA, order);
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// A system without files, for an emulator that needs none.
    pub(crate) fn empty() -> OuterSystem {
        OuterSystem { kernel: "none".into(), stile: "none".into(), folder: tempfile::tempdir().unwrap() }
    }
}
