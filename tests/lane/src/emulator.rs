//! The emulators, and how each is started.

pub(crate) mod bochs;
mod missing;
mod monitor;
mod program;
mod qemu;

use bochs::Console;
pub(crate) use missing::Missing;
pub(crate) use program::{Program, ProgramError};
use std::path::{Path, PathBuf};
use std::process::Child;
use stile_linux_images::tool::ToolError;

/// Enough for the tests' programs, twice while they are unpacked, and for four Linux guests.
const MEMORY_MIB: u32 = 2048;
/// As many CPUs as test machines have.
pub(crate) const CPUS: u32 = 2;
/// Of an old disk's cylinder: 16 heads with 63 sectors of 512 bytes.
pub(crate) const CYLINDER_BYTES: u64 = 16 * 63 * 512;

/// Why an emulator cannot be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// What it boots cannot be made.
    #[error(transparent)]
    Medium(#[from] ToolError),
    /// A file of the machine cannot be written.
    #[error("cannot prepare the emulated machine")]
    Prepare(#[source] std::io::Error),
    /// The program cannot be started.
    #[error("cannot start {0}")]
    Spawn(PathBuf, #[source] std::io::Error),
}

/// What is emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    /// AMD's SVM with nested paging, by QEMU: a thread of the host for each CPU, so no run repeats exactly
    Svm,
    /// Intel's VMX with nested paging, by Bochs: time is the number of instructions, so runs repeat exactly
    Vmx,
}

impl Kind {
    /// The emulator's program, and those that make what it boots.
    fn programs(self) -> (&'static [&'static str], &'static str) {
        match self {
            Self::Svm => (&["qemu-system-x86_64"], "qemu-system-x86"),
            Self::Vmx => (&bochs::PROGRAMS, bochs::PACKAGES),
        }
    }

    /// The emulator's program.
    pub(crate) fn program(self) -> Result<PathBuf, Missing> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let find =
            |name: &str| std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
        let (programs, packages) = self.programs();
        let all: Result<Vec<_>, _> =
            programs.iter().map(|&program| find(program).ok_or(Missing { program, packages })).collect();
        Ok(all?.remove(0))
    }

    /// The module that gives `/dev/kvm`.
    pub(crate) fn kvm_module(self) -> &'static str {
        match self {
            Self::Svm => "kvm-amd",
            Self::Vmx => "kvm-intel",
        }
    }

    /// Options of a module.
    ///
    /// In Bochs, a guest that is entered with its interrupts disabled holds back those of its host until it enables its
    /// own or leaves (docs/adr/0019). A loop of PAUSE leaves in the end; KVM doubles that time, up to 2^32 ticks.
    pub(crate) fn module_options(self, module: &str) -> &'static str {
        match (self, module) {
            (Self::Vmx, "kvm_intel") => "ple_window_max=65536",
            _ => "",
        }
    }

    /// The modules for a disk.
    pub(crate) fn disk_modules(self) -> &'static [&'static str] {
        match self {
            Self::Svm => &["virtio_pci", "virtio_blk"],
            Self::Vmx => &["ata_piix", "sd_mod"],
        }
    }
}

/// An emulator of a machine.
#[derive(Debug)]
pub(crate) struct Emulator {
    pub(crate) kind: Kind,
    pub(crate) program: Program,
    /// Instructions of each CPU in a second of the machine, if its time is that.
    pub(crate) ips: u32,
    /// Whether all its CPUs share one of the host's.
    pub(crate) on_one_cpu: bool,
}

/// What a machine boots.
#[derive(Debug)]
pub(crate) struct Boot<'a> {
    pub(crate) kernel: &'a Path,
    pub(crate) initramfs: &'a Path,
    pub(crate) command_line: String,
    /// The file that its second serial line is.
    pub(crate) told: &'a Path,
    /// The disk for results, if there is one.
    pub(crate) disk: Option<&'a Path>,
    /// The seconds that its clock is ahead at the start.
    pub(crate) ahead: u32,
    /// For other files.
    pub(crate) folder: &'a Path,
}

/// An emulator that has been started: its process, and what shows what the machine prints, if the process does not.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) console: Option<Console>,
}

impl Emulator {
    /// Starts it.
    pub(crate) fn start(&self, boot: &Boot<'_>) -> Result<Started, StartError> {
        match self.kind {
            Kind::Svm => qemu::start(&self.program, self.on_one_cpu, boot),
            Kind::Vmx => bochs::start(&self.program, self.ips, boot),
        }
    }

    /// Where the CPUs of a machine are that was started with this folder, as far as the emulator tells.
    pub(crate) fn whereabouts(&self, folder: &Path) -> String {
        match self.kind {
            Kind::Svm => monitor::registers(&qemu::monitor(folder)),
            Kind::Vmx => "this emulator does not tell where its CPUs are".to_owned(),
        }
    }

    /// The most seconds of the host that a second of the machine takes.
    pub(crate) fn slowness(&self) -> u32 {
        match self.kind {
            Kind::Svm => 1,
            Kind::Vmx => bochs::slowness(self.ips),
        }
    }
}
