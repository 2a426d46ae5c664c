//! An emulator's program: one that is installed, or QEMU of another suite of Debian's, which runs where its packages
//! are unpacked.
//!
//! The latter needs the C library of its suite, and so its loader. The loader is given the folders of all packages'
//! libraries, so that not one comes from this machine.

use super::missing::Missing;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use stile_linux_images::packages::PackageError;
use stile_linux_images::{Archive, Cache};

/// The package, and the program in it.
const QEMU: (&str, &str) = ("qemu-system-x86", "usr/bin/qemu-system-x86_64");
/// The folder of modules without which QEMU does not emulate some machines.
const MODULES: &str = "usr/lib/x86_64-linux-gnu/qemu";
/// Folders of firmware.
const FIRMWARE: [&str; 2] = ["usr/share/qemu", "usr/share/seabios"];
/// Folders of libraries.
const LIBRARIES: [&str; 2] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu"];
/// The loader, in one of those.
const LOADER: &str = "ld-linux-x86-64.so.2";

/// A program and what it needs to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    /// The program; before it, its loader with options.
    words: Vec<OsString>,
    /// The folder of its modules, if it has to be told.
    modules: Option<PathBuf>,
}

impl Program {
    /// One that is installed.
    pub(crate) fn installed(path: PathBuf) -> Self {
        Self { words: vec![path.into()], modules: None }
    }

    /// QEMU of an archive, fetched and unpacked with all that it needs, but not installed.
    pub(crate) fn unpacked(archive: &Archive, cache: &Cache, tell: &mut dyn FnMut(&str)) -> Result<Self, ProgramError> {
        let packages = archive.with_dependencies(QEMU.0)?;
        let roots: Vec<PathBuf> =
            packages.iter().map(|package| package.files(archive, cache, tell)).collect::<Result<_, _>>()?;
        if let Some(qemu) = packages.iter().find(|package| package.name == QEMU.0) {
            tell(&format!("the emulator is {qemu}"));
        }
        Self::in_roots(&roots).ok_or(ProgramError::Incomplete)
    }

    fn in_roots(roots: &[PathBuf]) -> Option<Self> {
        let all = |places: &[&str]| -> Vec<PathBuf> {
            let folders = roots.iter().flat_map(|root| places.iter().map(move |place| root.join(place)));
            folders.filter(|folder| folder.is_dir()).collect()
        };
        let libraries = all(&LIBRARIES);
        let loader = libraries.iter().map(|folder| folder.join(LOADER)).find(|file| file.is_file())?;
        let program = roots.iter().map(|root| root.join(QEMU.1)).find(|file| file.is_file())?;
        let mut words: Vec<OsString> = vec![loader.into(), "--library-path".into()];
        words.push(std::env::join_paths(libraries).ok()?);
        words.push(program.into());
        words.extend(all(&FIRMWARE).into_iter().flat_map(|folder| ["-L".into(), folder.into()]));
        Some(Self { words, modules: all(&[MODULES]).into_iter().next() })
    }

    /// The file that is executed.
    pub(crate) fn path(&self) -> &Path {
        self.words.first().map_or(Path::new(""), Path::new)
    }

    /// The program as a command that the kernel kills when this program ends, so that even a killed lane leaves no
    /// emulator.
    pub(super) fn ends_with_this(&self) -> Command {
        let mut command = Command::new("setpriv");
        self.complete(command.args(["--pdeathsig", "KILL", "--"]));
        command
    }

    /// As [`ends_with_this`](Self::ends_with_this), with all its threads on the CPU of the calling thread.
    pub(super) fn ends_with_this_on_its_cpu(&self) -> Command {
        let mut command = Command::new("taskset");
        let cpu = rustix::thread::sched_getcpu().to_string();
        self.complete(command.args(["--cpu-list", &cpu, "setpriv", "--pdeathsig", "KILL", "--"]));
        command
    }

    fn complete(&self, command: &mut Command) {
        command.args(&self.words).envs(self.modules.iter().map(|folder| ("QEMU_MODULE_DIR", folder)));
    }
}

/// Why an emulator cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProgramError {
    /// It is not installed.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// Its packages cannot be had.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// Its packages are not as they were.
    #[error("the packages of QEMU have no program or no loader where they are looked for")]
    Incomplete,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unpacked_program_has_its_loader_libraries_modules_and_firmware() {
        let folder = tempfile::tempdir().unwrap();
        let [libc, qemu, seabios] = ["libc6", "qemu", "seabios"].map(|name| folder.path().join(name));
        let files = [
            libc.join("usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
            qemu.join("usr/bin/qemu-system-x86_64"),
            qemu.join("usr/lib/x86_64-linux-gnu/qemu/accel.so"),
            seabios.join("usr/share/seabios/bios.bin"),
        ];
        for file in &files {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        let roots = [libc, qemu, seabios];
        let program = Program::in_roots(&roots).unwrap();
        assert_eq!(program.path(), files[0]);
        assert!(program.words.contains(&files[1].clone().into()));
        assert!(program.words.ends_with(&["-L".into(), roots[2].join("usr/share/seabios").into()]));
        assert_eq!(program.modules, Some(roots[1].join(MODULES)));
        assert_eq!(Program::in_roots(&roots[1..]), None, "no loader");
    }
}
