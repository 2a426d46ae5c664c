//! Unikernel images: checking that an ELF file is one, and loading it.

use super::layout::{PAGE, page_up};
use object::Endianness;
use object::elf::{EM_X86_64, ET_EXEC, FileHeader64, PF_W, PF_X, PT_INTERP, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use stile_abi::{IMAGE_MIN_GPA, MEMORY_MAX};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// A segment of the image, as it lies in guest memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment<'a> {
    /// First byte in guest memory.
    pub start: u64,
    /// Size in guest memory (units: bytes). The part after `bytes` is zero.
    pub size: u64,
    /// Contents from the file.
    pub bytes: &'a [u8],
    /// Whether the guest may write it.
    pub write: bool,
    /// Whether the guest may execute it.
    pub execute: bool,
}

/// A checked image.
#[derive(Debug, PartialEq, Eq)]
pub struct Image<'a> {
    /// Address at which every vCPU starts.
    pub entry: u64,
    /// In the order of addresses. No two are on the same page.
    pub segments: Vec<Segment<'a>>,
}

/// Why a file is not an image.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ImageError {
    /// Not an ELF file, or its headers are cut short.
    #[error("not a complete 64-bit little-endian ELF file: {0}")]
    NotElf(String),
    /// Built for another CPU.
    #[error("built for machine type {0}, not for x86-64 (62)")]
    Machine(u16),
    /// Relocatable, shared or dynamically linked.
    #[error("not a static executable ({0}): link with -static -no-pie")]
    NotStatic(&'static str),
    /// It has no loadable segment.
    #[error("has no loadable segment")]
    Empty,
    /// A segment's contents lie beyond the end of the file.
    #[error("truncated: segment {index} ends at byte {end} of the file, which has {have}")]
    Truncated {
        /// Program header number.
        index: usize,
        /// Offset at which the segment should end.
        end: u64,
        /// Size of the file.
        have: u64,
    },
    /// A segment is larger in the file than in memory.
    #[error("segment {index} has more bytes in the file than in memory")]
    Shrinks {
        /// Program header number.
        index: usize,
    },
    /// A segment lies outside the range that images may use.
    #[error("segment {index} at {start:#x}..{end:#x} is outside {IMAGE_MIN_GPA:#x}..{MEMORY_MAX:#x}")]
    OutOfRange {
        /// Program header number.
        index: usize,
        /// First byte.
        start: u64,
        /// One past the last byte.
        end: u64,
    },
    /// Two segments share a page, so that their rights could not differ.
    #[error("segments at {first:#x} and {second:#x} overlap or share a page")]
    Overlap {
        /// Start of the lower one.
        first: u64,
        /// Start of the higher one.
        second: u64,
    },
    /// The entry point is not in an executable segment.
    #[error("entry point {0:#x} is not in an executable segment")]
    NoEntry(u64),
}

impl<'a> Image<'a> {
    /// Checks an ELF file.
    pub fn parse(file: &'a [u8]) -> Result<Self, ImageError> {
        let not_elf = |e: object::read::Error| ImageError::NotElf(e.to_string());
        let header = FileHeader64::<Endianness>::parse(file).map_err(not_elf)?;
        let endian = header.endian().map_err(not_elf)?;
        if endian != Endianness::Little {
            return Err(ImageError::NotElf("big-endian".into()));
        }
        let machine = header.e_machine(endian);
        if machine != EM_X86_64 {
            return Err(ImageError::Machine(machine.0));
        }
        if header.e_type(endian) != ET_EXEC {
            return Err(ImageError::NotStatic("not of type EXEC"));
        }
        let headers = header.program_headers(endian, file).map_err(not_elf)?;
        let mut segments = Vec::new();
        for (index, ph) in headers.iter().enumerate() {
            match ph.p_type(endian) {
                PT_LOAD if ph.p_memsz(endian) > 0 => segments.push(segment(index, ph, endian, file)?),
                PT_INTERP => return Err(ImageError::NotStatic("wants a dynamic loader")),
                _ => {}
            }
        }
        segments.sort_by_key(|s| s.start);
        let image = Self { entry: header.e_entry(endian), segments };
        image.check_placement()?;
        Ok(image)
    }

    fn check_placement(&self) -> Result<(), ImageError> {
        if self.segments.is_empty() {
            return Err(ImageError::Empty);
        }
        for pair in self.segments.windows(2) {
            if page_up(pair[0].start + pair[0].size) > pair[1].start & !(PAGE - 1) {
                return Err(ImageError::Overlap { first: pair[0].start, second: pair[1].start });
            }
        }
        let holds_entry = |s: &Segment<'_>| s.execute && (s.start..s.start + s.size).contains(&self.entry);
        if !self.segments.iter().any(holds_entry) {
            return Err(ImageError::NoEntry(self.entry));
        }
        Ok(())
    }

    /// One past the last byte.
    pub fn end(&self) -> u64 {
        self.segments.last().map_or(IMAGE_MIN_GPA, |s| s.start + s.size)
    }

    /// Copies the image into guest memory that is still all zeroes.
    pub fn load(&self, memory: &GuestMemoryMmap) -> Result<(), vm_memory::GuestMemoryError> {
        self.segments.iter().try_for_each(|s| memory.write_slice(s.bytes, GuestAddress(s.start)))
    }
}

fn segment<'a>(
    index: usize,
    ph: &object::elf::ProgramHeader64<Endianness>,
    endian: Endianness,
    file: &'a [u8],
) -> Result<Segment<'a>, ImageError> {
    let (start, size, in_file) = (ph.p_vaddr(endian), ph.p_memsz(endian), ph.p_filesz(endian));
    if in_file > size {
        return Err(ImageError::Shrinks { index });
    }
    let end = start.saturating_add(size);
    if start < IMAGE_MIN_GPA || end > MEMORY_MAX {
        return Err(ImageError::OutOfRange { index, start, end });
    }
    let truncated =
        || ImageError::Truncated { index, end: ph.p_offset(endian).saturating_add(in_file), have: file.len() as u64 };
    let bytes = ph.data(endian, file).map_err(|()| truncated())?;
    let flags = ph.p_flags(endian).0;
    Ok(Segment { start, size, bytes, write: flags & PF_W.0 != 0, execute: flags & PF_X.0 != 0 })
}

/// Makes ELF files for the tests of this module and for whole-VM tests. No other place writes ELF headers.
#[doc(hidden)]
pub mod forge {
    use super::*;

    /// A segment to forge.
    #[derive(Debug, Clone)]
    pub struct Piece {
        /// Address.
        pub start: u64,
        /// Contents.
        pub bytes: Vec<u8>,
        /// Size in memory that the header claims.
        pub size: u64,
        /// `PF_*` bits.
        pub flags: u32,
    }

    /// An executable ELF file of these segments, with every byte known, so that tests can damage it.
    pub fn elf(entry: u64, pieces: &[Piece]) -> Vec<u8> {
        let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let half = |file: &mut Vec<u8>, v: u16| file.extend_from_slice(&v.to_le_bytes());
        half(&mut file, ET_EXEC.0);
        half(&mut file, EM_X86_64.0);
        file.extend_from_slice(&1u32.to_le_bytes());
        for word in [entry, 64, 0] {
            file.extend_from_slice(&word.to_le_bytes());
        }
        file.extend_from_slice(&0u32.to_le_bytes());
        for v in [64, 56, pieces.len() as u16, 64, 0, 0] {
            half(&mut file, v);
        }
        let mut offset = 64 + 56 * pieces.len() as u64;
        for piece in pieces {
            file.extend_from_slice(&PT_LOAD.0.to_le_bytes());
            file.extend_from_slice(&piece.flags.to_le_bytes());
            for word in [offset, piece.start, piece.start, piece.bytes.len() as u64, piece.size, PAGE] {
                file.extend_from_slice(&word.to_le_bytes());
            }
            offset += piece.bytes.len() as u64;
        }
        pieces.iter().for_each(|piece| file.extend_from_slice(&piece.bytes));
        file
    }

    /// An image of machine code alone that can run.
    pub fn code(bytes: &[u8]) -> Vec<u8> {
        let text = Piece { start: IMAGE_MIN_GPA, bytes: bytes.to_vec(), size: bytes.len() as u64, flags: PF_X.0 | 4 };
        elf(IMAGE_MIN_GPA, &[text])
    }
}

#[cfg(test)]
mod tests {
    use super::forge::{Piece, code, elf};
    use super::*;

    fn text(start: u64) -> Piece {
        Piece { start, bytes: vec![0x90; 16], size: 16, flags: PF_X.0 }
    }

    fn parse(file: &[u8]) -> Result<(), ImageError> {
        Image::parse(file).map(drop)
    }

    #[test]
    fn a_static_executable_is_accepted() {
        let file = code(&[0xf4]);
        let image = Image::parse(&file).unwrap();
        assert_eq!((image.entry, image.end()), (IMAGE_MIN_GPA, IMAGE_MIN_GPA + 1));
        assert!(image.segments[0].execute && !image.segments[0].write);
    }

    #[test]
    fn a_file_cut_anywhere_is_refused_without_panic() {
        let file = elf(IMAGE_MIN_GPA, &[text(IMAGE_MIN_GPA), text(IMAGE_MIN_GPA + PAGE)]);
        for len in 0..file.len() {
            assert!(parse(&file[..len]).is_err(), "cut to {len} bytes");
        }
    }

    #[test]
    fn a_file_for_another_machine_is_refused() {
        let mut file = code(&[0xf4]);
        file[18] = 183;
        assert_eq!(parse(&file), Err(ImageError::Machine(183)));
    }

    #[test]
    fn a_position_independent_file_is_refused() {
        let mut file = code(&[0xf4]);
        file[16] = 3;
        assert!(matches!(parse(&file), Err(ImageError::NotStatic(_))));
    }

    #[test]
    fn overlapping_segments_are_refused_also_when_they_only_share_a_page() {
        for second in [IMAGE_MIN_GPA + 8, IMAGE_MIN_GPA + 64] {
            let file = elf(IMAGE_MIN_GPA, &[text(IMAGE_MIN_GPA), text(second)]);
            assert!(matches!(parse(&file), Err(ImageError::Overlap { .. })));
        }
    }

    #[test]
    fn segments_outside_the_allowed_range_are_refused() {
        for start in [0, IMAGE_MIN_GPA - 8, MEMORY_MAX - 8, u64::MAX - 4] {
            assert!(matches!(parse(&elf(start, &[text(start)])), Err(ImageError::OutOfRange { .. })), "{start:#x}");
        }
    }

    #[test]
    fn an_entry_point_outside_executable_segments_is_refused() {
        let data = Piece { flags: PF_W.0, ..text(IMAGE_MIN_GPA + PAGE) };
        for entry in [0, IMAGE_MIN_GPA + 16, IMAGE_MIN_GPA + PAGE] {
            let file = elf(entry, &[text(IMAGE_MIN_GPA), data.clone()]);
            assert_eq!(parse(&file), Err(ImageError::NoEntry(entry)));
        }
    }

    #[test]
    fn a_segment_larger_in_the_file_than_in_memory_is_refused() {
        let file = elf(IMAGE_MIN_GPA, &[Piece { size: 4, ..text(IMAGE_MIN_GPA) }]);
        assert_eq!(parse(&file), Err(ImageError::Shrinks { index: 0 }));
    }

    #[test]
    fn every_built_in_image_is_accepted() {
        for name in stile_guest_images::names() {
            let bytes = stile_guest_images::image(name).unwrap();
            Image::parse(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        }
    }
}
