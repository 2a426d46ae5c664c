//! What a Linux guest boots from: kernel, initramfs and command line. Checks that they fit together and into memory.
//!
//! This needs no KVM, so that a configuration can be checked on a host that cannot run it.

use super::cmdline::Cmdline;
use super::initrd::{Initrd, InitrdError};
use super::kernel::{Kernel, KernelError};
use super::layout::{CMDLINE_ROOM, KERNEL, Layout};
use crate::vm::Range;
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// A checked kernel with its initramfs, command line and memory.
#[derive(Debug)]
pub struct Payload {
    /// The kernel.
    pub(super) kernel: Kernel,
    /// The initramfs, and where it goes.
    pub(super) initrd: Option<(Initrd, Range)>,
    /// The whole command line.
    pub(super) cmdline: Cmdline,
    /// The memory.
    pub(super) layout: Layout,
}

/// Why a guest cannot boot.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The kernel's file does not do.
    #[error("kernel {} {source}", path.display())]
    Kernel {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: KernelError,
    },
    /// The initramfs' file does not do.
    #[error("initrd {} {source}", path.display())]
    Initrd {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: InitrdError,
    },
    /// The memory is too small for the kernel alone.
    #[error("kernel {} needs {} MiB of memory to start, and the VM has {} MiB", path.display(), up(*need), down(*have))]
    TooLittleMemory {
        /// The file.
        path: PathBuf,
        /// Memory needed (units: bytes).
        need: u64,
        /// Memory of the VM (units: bytes).
        have: u64,
    },
    /// The initramfs does not fit into memory beside the kernel.
    #[error(
        "initrd {} of {} MiB does not fit the VM's memory of {} MiB beside the kernel, which needs the first {} MiB",
        path.display(), up(*size), down(*have), up(*kernel)
    )]
    TooLargeInitrd {
        /// The file.
        path: PathBuf,
        /// Its size (units: bytes).
        size: u64,
        /// The kernel's end (units: bytes).
        kernel: u64,
        /// The VM's memory (units: bytes).
        have: u64,
    },
    /// The kernel would cut the command line short.
    #[error("the command line has {have} bytes with what stile adds, and kernel {} reads {most}", path.display())]
    TooLongCmdline {
        /// The kernel's file.
        path: PathBuf,
        /// Length of the command line (units: bytes).
        have: usize,
        /// Length that the kernel reads (units: bytes).
        most: u64,
    },
    /// The command line contains a character at which it would end early.
    #[error("the command line holds a character that no command line can: {0:?}")]
    OddCmdline(char),
}

impl PayloadError {
    /// A remedy, for the user.
    pub fn remedy(&self) -> String {
        match self {
            Self::Kernel { source, .. } => source.remedy().to_owned(),
            Self::Initrd { source, .. } => source.remedy().to_owned(),
            Self::TooLittleMemory { need, .. } => format!("set `memory` to \"{}M\" at least", up(*need)),
            Self::TooLargeInitrd { size, kernel, .. } => {
                format!("set `memory` to \"{}M\" at least, or make the initramfs smaller", up(size + kernel) + 1)
            }
            Self::TooLongCmdline { .. } => "shorten `cmdline`".to_owned(),
            Self::OddCmdline(_) => "leave it out of `cmdline`".to_owned(),
        }
    }
}

fn up(bytes: u64) -> u64 {
    bytes.div_ceil(MIB)
}

fn down(bytes: u64) -> u64 {
    bytes / MIB
}

impl Payload {
    /// Opens and checks everything, for a VM with so much memory (units: bytes) and the user's command line.
    pub fn open(kernel: &Path, initrd: Option<&Path>, cmdline: &str, memory: u64) -> Result<Self, PayloadError> {
        let of_kernel = |source| PayloadError::Kernel { path: kernel.to_owned(), source };
        let kernel = Kernel::open(kernel).map_err(of_kernel)?;
        let layout = Layout::new(memory);
        if kernel.end() > layout.low_end() {
            let path = kernel.path().to_owned();
            return Err(PayloadError::TooLittleMemory { path, need: kernel.end(), have: memory });
        }
        let initrd = initrd.map(|path| place(path, &kernel, layout)).transpose()?;
        let cmdline = Cmdline::new(cmdline);
        check_cmdline(&cmdline, &kernel)?;
        Ok(Self { kernel, initrd, cmdline, layout })
    }

    /// The kernel's file.
    pub fn kernel(&self) -> &Path {
        self.kernel.path()
    }
}

fn place(path: &Path, kernel: &Kernel, layout: Layout) -> Result<(Initrd, Range), PayloadError> {
    let initrd = Initrd::open(path).map_err(|source| PayloadError::Initrd { path: path.to_owned(), source })?;
    let size = initrd.size();
    match layout.place_initrd(size, kernel.initrd_last(), kernel.end().max(KERNEL)) {
        Some(start) => Ok((initrd, Range { start, end: start + size })),
        None => {
            let (path, kernel, have) = (path.to_owned(), kernel.end(), layout.memory());
            Err(PayloadError::TooLargeInitrd { path, size, kernel, have })
        }
    }
}

fn check_cmdline(cmdline: &Cmdline, kernel: &Kernel) -> Result<(), PayloadError> {
    let text = cmdline.as_str();
    if let Some(odd) = text.chars().find(|c| c.is_control() && *c != '\t') {
        return Err(PayloadError::OddCmdline(odd));
    }
    // A 0 follows the text.
    let most = kernel.cmdline_max().min(CMDLINE_ROOM - 1);
    match text.len() as u64 <= most {
        true => Ok(()),
        false => Err(PayloadError::TooLongCmdline { path: kernel.path().to_owned(), have: text.len(), most }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernel::forge;
    use super::*;
    use std::fs;

    struct Files {
        folder: tempfile::TempDir,
    }

    impl Files {
        fn new(initrd: usize) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("vmlinuz"), forge::bzimage(|_| ())).unwrap();
            let mut archive = b"070701".to_vec();
            archive.resize(initrd, 0);
            fs::write(folder.path().join("initrd"), archive).unwrap();
            Self { folder }
        }

        fn open(&self, cmdline: &str, memory: u64) -> Result<Payload, PayloadError> {
            let at = |name: &str| self.folder.path().join(name);
            Payload::open(&at("vmlinuz"), Some(&at("initrd")), cmdline, memory)
        }
    }

    #[test]
    fn what_fits_is_placed_at_the_top_of_memory() {
        let payload = Files::new(5000).open("quiet", 64 * MIB).unwrap();
        let (_, range) = payload.initrd.as_ref().unwrap();
        assert_eq!((range.start, range.end), (64 * MIB - 8192, 64 * MIB - 8192 + 5000));
        assert!(payload.cmdline.as_str().ends_with("quiet"));
    }

    #[test]
    fn an_initramfs_larger_than_what_the_kernel_leaves_is_refused_with_what_would_do() {
        let error = Files::new(41 << 20).open("", 64 * MIB).unwrap_err();
        assert!(matches!(error, PayloadError::TooLargeInitrd { .. }), "{error}");
        assert!(error.to_string().contains("of 41 MiB"), "{error}");
        let enough = error.remedy().split('"').nth(1).unwrap().trim_end_matches('M').parse::<u64>().unwrap();
        assert!(Files::new(41 << 20).open("", enough * MIB).is_ok(), "{enough} MiB are enough");
    }

    #[test]
    fn memory_too_small_for_the_kernel_is_refused_with_what_is_needed() {
        let error = Files::new(10).open("", 8 * MIB).unwrap_err();
        assert!(matches!(error, PayloadError::TooLittleMemory { .. }), "{error}");
        assert!(error.remedy().contains(&format!("\"{}M\"", up(forge::END))), "{}", error.remedy());
    }

    #[test]
    fn a_command_line_may_be_as_long_as_the_kernel_reads_and_no_longer() {
        let files = Files::new(10);
        let ours = Cmdline::new("x").as_str().len() - 1;
        let fits = "x".repeat(forge::CMDLINE_SIZE as usize - ours);
        assert!(files.open(&fits, 64 * MIB).is_ok());
        let error = files.open(&(fits + "x"), 64 * MIB).unwrap_err();
        assert!(error.to_string().contains("reads 2047"), "{error}");
        assert!(matches!(files.open("a\0b", 64 * MIB), Err(PayloadError::OddCmdline('\0'))));
    }
}
