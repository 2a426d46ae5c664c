//! bzImage, the format in which distributions ship kernels: real-mode code with a header, then the compressed rest.
//!
//! The names of fields are those of the Linux boot protocol (Documentation/arch/x86/boot.rst).

use super::KernelError;
use crate::linux::file::GuestFile;
use crate::linux::layout::{HOLE, KERNEL};
use linux_loader::loader::bootparam::{LOADED_HIGH, XLF_KERNEL_64, setup_header};
use std::os::unix::fs::FileExt;
use vm_memory::ByteValued;

/// Where the header lies in the file.
pub const HEADER_AT: u64 = 0x1f1;
/// "HdrS".
pub const MAGIC: u32 = u32::from_le_bytes(*b"HdrS");
/// Signature of a boot sector.
pub const BOOT_FLAG: u16 = 0xaa55;
/// The first version with `xloadflags`, which announce the 64-bit entry: Linux 3.8.
pub const OLDEST: u16 = 0x20c;
const SECTOR: u64 = 512;
/// Unit of `syssize` (units: bytes).
const PARAGRAPH: u64 = 16;
/// Offset of the 64-bit entry in the loaded kernel.
const ENTRY_64: u64 = 0x200;
/// Real-mode code of files that give no number (units: sectors).
const SETUP_SECTORS: u64 = 4;

/// Address of the 64-bit entry of a kernel loaded at `start`.
pub fn entry(start: u64) -> u64 {
    start + ENTRY_64
}

/// A checked bzImage.
#[derive(Debug)]
pub struct BzImage {
    header: setup_header,
    end: u64,
}

impl BzImage {
    /// Checks a file.
    pub fn read(file: &GuestFile) -> Result<Self, KernelError> {
        let mut header = setup_header::default();
        match file.file().read_exact_at(header.as_mut_slice(), HEADER_AT) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Err(KernelError::Unknown),
            Err(e) => return Err(KernelError::Read(e)),
        }
        if (header.boot_flag, header.header) != (BOOT_FLAG, MAGIC) {
            return Err(KernelError::Unknown);
        }
        check_entry(&header)?;
        let end = check_sizes(&header, file.length())?;
        Ok(Self { header, end })
    }

    /// The fields of the header.
    pub fn header(&self) -> &setup_header {
        &self.header
    }

    /// See [`Kernel::end`](super::Kernel::end).
    pub fn end(&self) -> u64 {
        self.end
    }

    /// See [`Kernel::cmdline_max`](super::Kernel::cmdline_max).
    pub fn cmdline_max(&self) -> u64 {
        self.header.cmdline_size.into()
    }

    /// See [`Kernel::initrd_last`](super::Kernel::initrd_last).
    pub fn initrd_last(&self) -> u64 {
        self.header.initrd_addr_max.into()
    }
}

fn check_entry(header: &setup_header) -> Result<(), KernelError> {
    let (version, loadflags, xloadflags, start) =
        (header.version, header.loadflags, header.xloadflags, header.code32_start);
    if version < OLDEST {
        let (major, minor) = (version >> 8, version & 0xff);
        return Err(KernelError::Not64Bit(format!("boot protocol {major}.{minor:02}, before 2.12")));
    }
    if xloadflags & XLF_KERNEL_64 == 0 {
        return Err(KernelError::Not64Bit("built for 32-bit CPUs".to_owned()));
    }
    if loadflags & LOADED_HIGH == 0 || u64::from(start) < KERNEL {
        return Err(KernelError::Header(format!(
            "loadflags {loadflags:#x} and code32_start {start:#x} are a zImage's"
        )));
    }
    Ok(())
}

/// Checks the sizes in the header against a file of so many bytes. Returns the kernel's end in memory.
fn check_sizes(header: &setup_header, have: u64) -> Result<u64, KernelError> {
    let truncated = |part: &str, end| Err(KernelError::Truncated { part: part.to_owned(), end, have });
    let sectors = if header.setup_sects == 0 { SETUP_SECTORS } else { header.setup_sects.into() };
    let setup = (sectors + 1) * SECTOR;
    if have <= setup {
        return truncated("its real-mode code", setup);
    }
    let code = u64::from(header.syssize) * PARAGRAPH;
    // The last paragraph may be incomplete.
    if have + PARAGRAPH <= setup + code {
        return truncated("the kernel proper, by `syssize`,", setup + code);
    }
    if code <= ENTRY_64 {
        return Err(KernelError::Header(format!("syssize says that the kernel has {code} bytes")));
    }
    let payload = setup + u64::from(header.payload_offset) + u64::from(header.payload_length);
    if have < payload {
        return truncated("the compressed kernel, by `payload_length`,", payload);
    }
    let (preferred, init_size, alignment) = (header.pref_address, header.init_size, header.kernel_alignment);
    if !alignment.is_power_of_two() {
        return Err(KernelError::Header(format!("kernel_alignment {alignment:#x} is no power of two")));
    }
    // The kernel moves itself to its preferred address before it unpacks.
    let runs_at = preferred.max(KERNEL.next_multiple_of(alignment.into()));
    match runs_at.checked_add(init_size.into()) {
        Some(end) if end <= HOLE => Ok(end.max(KERNEL + (have - setup))),
        _ => Err(KernelError::Header(format!(
            "it asks for {init_size:#x} bytes from {preferred:#x} (init_size, pref_address), which no guest has"
        ))),
    }
}
