//! Kernel files: recognising them, and checking their headers against the files.
//!
//! Every size and address in a header is checked here, before there is a VM, against the file's length and the limits
//! of guests. The loader then reads from the file straight into guest memory. No header makes it allocate memory.

pub mod bzimage;
pub mod elf;

use super::file::{FileError, GuestFile};
use super::layout::KERNEL;
use bzimage::BzImage;
use elf::Vmlinux;
use linux_loader::loader::bootparam::setup_header;
use linux_loader::loader::{self, KernelLoader};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use vm_memory::{GuestAddress, GuestMemoryMmap};

/// Most bytes that an x86-64 kernel reads of its command line if its file gives no number (without the final 0).
const CMDLINE_MAX: u64 = 2047;

/// A checked kernel file.
#[derive(Debug)]
pub struct Kernel {
    file: GuestFile,
    format: Format,
}

/// What kind of kernel file it is.
#[derive(Debug)]
enum Format {
    /// bzImage, which distributions ship.
    BzImage(Box<BzImage>),
    /// vmlinux, which the linker makes.
    Vmlinux(Vmlinux),
}

/// How a loaded kernel is entered.
#[derive(Debug, Clone, Copy)]
pub enum Protocol {
    /// The Linux boot protocol's 64-bit entry.
    Linux64 {
        /// Entry point.
        entry: u64,
        /// The header of a bzImage; `None` for a vmlinux.
        header: Option<setup_header>,
    },
    /// PVH: 32-bit, without paging.
    Pvh {
        /// Entry point.
        entry: u64,
    },
}

/// Why a file is not a kernel that can be booted.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The file cannot be booted from.
    #[error(transparent)]
    File(#[from] FileError),
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The file has another format.
    #[error("is neither a bzImage nor an ELF file")]
    Unknown,
    /// The file is cut short.
    #[error("is truncated: {part} ends at byte {end}, and the file has {have}")]
    Truncated {
        /// The part that is incomplete.
        part: String,
        /// Offset at which the part should end.
        end: u64,
        /// Size of the file.
        have: u64,
    },
    /// A kernel, but without a 64-bit entry.
    #[error("is a kernel without a 64-bit entry ({0})")]
    Not64Bit(String),
    /// The header contradicts itself or the file.
    #[error("has a header that cannot be right: {0}")]
    Header(String),
}

impl KernelError {
    /// A remedy, for the user.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::File(error) => error.remedy(),
            Self::Read(_) => "see whether the file can be copied elsewhere; its disk may fail",
            Self::Unknown => "give a kernel as distributions install it, /boot/vmlinuz-VERSION, or an ELF vmlinux",
            Self::Truncated { .. } | Self::Header(_) => "fetch or build the kernel again",
            Self::Not64Bit(_) => "give a kernel for x86-64, of version 3.8 or later",
        }
    }
}

/// Why a kernel that was checked could not be loaded.
#[derive(Debug, thiserror::Error)]
#[error("the kernel {path} cannot be loaded, although it could be when it was checked: {why}")]
pub struct LoadError {
    path: String,
    why: String,
}

impl Kernel {
    /// Opens a kernel file and checks it.
    pub fn open(path: &Path) -> Result<Self, KernelError> {
        let file = GuestFile::open(path)?;
        let mut magic = [0; 4];
        let format = match file.file().read_exact_at(&mut magic, 0) {
            Ok(()) if magic == *b"\x7fELF" => Format::Vmlinux(Vmlinux::read(&file)?),
            _ => Format::BzImage(Box::new(BzImage::read(&file)?)),
        };
        Ok(Self { file, format })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// One past the last byte of memory that it uses before it has read the memory map.
    pub fn end(&self) -> u64 {
        match &self.format {
            Format::BzImage(image) => image.end(),
            Format::Vmlinux(image) => image.end(),
        }
    }

    /// Most bytes that it reads of its command line (without the final 0).
    pub fn cmdline_max(&self) -> u64 {
        match &self.format {
            Format::BzImage(image) => image.cmdline_max(),
            Format::Vmlinux(_) => CMDLINE_MAX,
        }
    }

    /// The last address at which an initramfs may lie.
    pub fn initrd_last(&self) -> u64 {
        match &self.format {
            Format::BzImage(image) => image.initrd_last(),
            Format::Vmlinux(_) => u64::MAX,
        }
    }

    /// Loads the kernel. The memory must reach at least to [`end`](Self::end).
    pub fn load(&self, memory: &GuestMemoryMmap) -> Result<Protocol, LoadError> {
        let at = Some(GuestAddress(KERNEL));
        let failed = |why: String| LoadError { path: self.path().display().to_string(), why };
        let mut file = self.file.file().try_clone().map_err(|e| failed(e.to_string()))?;
        match &self.format {
            Format::BzImage(image) => {
                let loaded = loader::BzImage::load(memory, at, &mut file, at).map_err(|e| failed(e.to_string()))?;
                let header = loaded.setup_header.unwrap_or(*image.header());
                Ok(Protocol::Linux64 { entry: bzimage::entry(loaded.kernel_load.0), header: Some(header) })
            }
            Format::Vmlinux(image) => {
                loader::Elf::load(memory, None, &mut file, at).map_err(|e| failed(e.to_string()))?;
                Ok(image.protocol())
            }
        }
    }
}

#[cfg(test)]
pub(in crate::linux) mod forge;
#[cfg(test)]
mod tests;
