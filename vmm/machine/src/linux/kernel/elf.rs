//! vmlinux, the kernel as the linker makes it: an ELF file. It is entered by PVH if it has that entry, else in 64-bit
//! mode.

use super::{KernelError, Protocol};
use crate::linux::file::GuestFile;
use crate::linux::layout::{HOLE, KERNEL};
use object::elf::{EM_X86_64, FileHeader64, PN_XNUM, PT_LOAD, PT_NOTE, ProgramHeader64};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadRef};

/// Type of the note with the PVH entry; the note's owner is "Xen".
pub const PVH_NOTE: u32 = 18;
/// Kernels have some hundred bytes of notes. A file with more than this is not a kernel.
const NOTES_MAX: u64 = 64 << 10;
/// The loader accepts segments with this alignment only, which kernels have (units: bytes).
const ALIGNMENT: u64 = 2 << 20;

/// A checked vmlinux.
#[derive(Debug)]
pub struct Vmlinux {
    entry: u64,
    pvh: Option<u64>,
    end: u64,
}

type Header = FileHeader64<Endianness>;
type Segment = ProgramHeader64<Endianness>;

impl Vmlinux {
    /// Checks a file.
    pub fn read(file: &GuestFile) -> Result<Self, KernelError> {
        let handle = file.file().try_clone().map_err(KernelError::Read)?;
        // Reads only the bytes asked for, and none beyond the file's end.
        let cache = ReadCache::new(handle);
        let malformed = |e: object::read::Error| KernelError::Header(e.to_string());
        let header = Header::parse(&cache).map_err(|e| match file.length() < size_of::<Header>() as u64 {
            true => truncated("the ELF header", size_of::<Header>() as u64, file),
            false => malformed(e),
        })?;
        let endian = header.endian().map_err(malformed)?;
        let machine = header.e_machine(endian);
        if machine != EM_X86_64 || endian != Endianness::Little {
            return Err(KernelError::Not64Bit(format!("built for machine type {}, not x86-64 (62)", machine.0)));
        }
        check_table(header, endian, file)?;
        let segments = header.program_headers(endian, &cache).map_err(malformed)?;
        let mut end = 0;
        let mut pvh = None;
        for (index, segment) in segments.iter().enumerate() {
            match segment.p_type(endian) {
                PT_LOAD => end = end.max(check_segment(index, segment, endian, file)?),
                PT_NOTE => pvh = pvh.or(pvh_entry(segment, endian, &cache, file)?),
                _ => {}
            }
        }
        let entry = header.e_entry(endian);
        for (what, address) in [("entry point", Some(entry)), ("PVH entry point", pvh)] {
            let within = |s: &Segment| s.p_paddr(endian)..s.p_paddr(endian) + s.p_filesz(endian);
            let loaded = segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD);
            if let Some(address) = address.filter(|address| !loaded.clone().any(|s| within(s).contains(address))) {
                return Err(KernelError::Header(format!("the {what} {address:#x} is in no segment")));
            }
        }
        Ok(Self { entry, pvh, end })
    }

    /// See [`Kernel::end`](super::Kernel::end).
    pub fn end(&self) -> u64 {
        self.end
    }

    /// How the kernel is entered.
    pub fn protocol(&self) -> Protocol {
        match self.pvh {
            Some(entry) => Protocol::Pvh { entry },
            None => Protocol::Linux64 { entry: self.entry, header: None },
        }
    }
}

fn truncated(part: &str, end: u64, file: &GuestFile) -> KernelError {
    KernelError::Truncated { part: part.to_owned(), end, have: file.length() }
}

/// Checks that all program headers are there.
fn check_table(header: &Header, endian: Endianness, file: &GuestFile) -> Result<(), KernelError> {
    let (at, number, size) = (header.e_phoff(endian), header.e_phnum(endian), header.e_phentsize(endian));
    if number == 0 || number == PN_XNUM {
        return Err(KernelError::Header(format!("it says that it has {number} program headers")));
    }
    match at.checked_add(u64::from(number) * u64::from(size)) {
        Some(end) if end <= file.length() => Ok(()),
        end => Err(truncated("the table of program headers", end.unwrap_or(u64::MAX), file)),
    }
}

/// Checks a loadable segment. Returns its end in memory.
fn check_segment(index: usize, segment: &Segment, endian: Endianness, file: &GuestFile) -> Result<u64, KernelError> {
    let (offset, in_file) = (segment.p_offset(endian), segment.p_filesz(endian));
    let (start, in_memory) = (segment.p_paddr(endian), segment.p_memsz(endian));
    let wrong = |why: String| Err(KernelError::Header(format!("segment {index} {why}")));
    match offset.checked_add(in_file) {
        Some(end) if end <= file.length() => {}
        end => return Err(truncated(&format!("segment {index}"), end.unwrap_or(u64::MAX), file)),
    }
    if in_file > in_memory {
        return wrong("has more bytes in the file than in memory".to_owned());
    }
    if in_file > 0 && !segment.p_align(endian).is_multiple_of(ALIGNMENT) {
        return wrong(format!("is aligned to {:#x}, a kernel's are to {ALIGNMENT:#x}", segment.p_align(endian)));
    }
    match start.checked_add(in_memory) {
        Some(end) if start >= KERNEL && end <= HOLE => Ok(end),
        end => wrong(format!("at {start:#x}..{:#x} is outside {KERNEL:#x}..{HOLE:#x}", end.unwrap_or(u64::MAX))),
    }
}

/// The PVH entry point, if this note segment contains it.
fn pvh_entry<'a>(
    segment: &Segment,
    endian: Endianness,
    data: impl ReadRef<'a>,
    file: &GuestFile,
) -> Result<Option<u64>, KernelError> {
    let (offset, size) = (segment.p_offset(endian), segment.p_filesz(endian));
    if size > NOTES_MAX {
        return Err(KernelError::Header(format!("its notes take {size} bytes")));
    }
    match offset.checked_add(size) {
        Some(end) if end <= file.length() => {}
        end => return Err(truncated("its notes", end.unwrap_or(u64::MAX), file)),
    }
    let malformed = |e: object::read::Error| KernelError::Header(e.to_string());
    let Some(mut notes) = segment.notes(endian, data).map_err(malformed)? else { return Ok(None) };
    while let Some(note) = notes.next().map_err(malformed)? {
        if note.name() == b"Xen" && note.n_type(endian).0 == PVH_NOTE {
            // The address has four bytes or eight, little-endian.
            let entry = note.desc().iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
            return Ok(Some(entry).filter(|_| matches!(note.desc().len(), 4 | 8)));
        }
    }
    Ok(None)
}
