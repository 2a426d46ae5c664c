//! The initramfs, a file that the kernel gets unchanged.

use super::file::{FileError, GuestFile};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use vm_memory::{Bytes, GuestAddress, GuestMemoryError, GuestMemoryMmap};

/// First bytes of an initramfs that kernels can unpack: cpio, plain or compressed by a method that kernels know.
const MAGICS: [(&[u8], &str); 9] = [
    (b"070701", "cpio"),
    (b"070702", "cpio"),
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x5d\0\0", "lzma"),
    (b"\x89LZO", "lzo"),
    (b"\x02\x21\x4c\x18", "lz4"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
];

/// A checked initramfs.
#[derive(Debug)]
pub struct Initrd(GuestFile);

/// Why a file is not an initramfs.
#[derive(Debug, thiserror::Error)]
pub enum InitrdError {
    /// The file cannot be booted from.
    #[error(transparent)]
    File(#[from] FileError),
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Read(#[source] io::Error),
    /// The file has another format.
    #[error("is no cpio archive, neither as it is nor compressed")]
    Unknown,
}

impl InitrdError {
    /// A remedy, for the user.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::File(error) => error.remedy(),
            Self::Read(_) => "see whether the file can be copied elsewhere; its disk may fail",
            Self::Unknown => {
                "make it with `cpio -o -H newc`, which may be piped through gzip, xz, zstd or another of those"
            }
        }
    }
}

impl Initrd {
    /// Opens an initramfs and checks its first bytes.
    pub fn open(path: &Path) -> Result<Self, InitrdError> {
        let file = GuestFile::open(path)?;
        let mut start = [0; 8];
        let length = file.length().min(start.len() as u64) as usize;
        file.file().read_exact_at(&mut start[..length], 0).map_err(InitrdError::Read)?;
        let known = MAGICS.iter().any(|(magic, _)| start[..length].starts_with(magic));
        if known { Ok(Self(file)) } else { Err(InitrdError::Unknown) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Its size (units: bytes).
    pub fn size(&self) -> u64 {
        self.0.length()
    }

    /// Copies it to memory that has room for it at this address.
    pub fn load(&self, memory: &GuestMemoryMmap, start: u64) -> Result<(), GuestMemoryError> {
        use std::io::Seek;
        let mut file = self.0.file();
        file.rewind().map_err(GuestMemoryError::IOError)?;
        memory.read_exact_volatile_from(GuestAddress(start), &mut file, self.size() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn of(bytes: &[u8]) -> (tempfile::NamedTempFile, Result<Initrd, InitrdError>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), bytes).unwrap();
        let opened = Initrd::open(file.path());
        (file, opened)
    }

    #[test]
    fn archives_compressed_or_not_are_accepted_and_everything_else_is_refused() {
        for (magic, name) in MAGICS {
            assert!(of(&[magic, b"rest of it"].concat()).1.is_ok(), "{name}");
            assert!(of(magic).1.is_ok(), "{name}, and nothing more");
            assert!(matches!(of(&magic[..magic.len() - 1]).1, Err(InitrdError::Unknown)), "{name}, cut short");
        }
        let error = of(b"#!/bin/sh").1.unwrap_err();
        assert!(error.to_string().contains("cpio") && error.remedy().contains("newc"));
        assert!(matches!(of(b"").1, Err(InitrdError::File(FileError::Empty))));
        assert!(matches!(Initrd::open(Path::new("/")), Err(InitrdError::File(FileError::NotAFile(_)))));
    }

    #[test]
    fn what_is_loaded_is_the_file_and_no_more() {
        let (_file, initrd) = of(b"070701 and the rest");
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x3000)]).unwrap();
        let initrd = initrd.unwrap();
        // Loaded twice, since several VMs may boot from one file.
        for start in [0x1000, 0x2000] {
            initrd.load(&memory, start).unwrap();
            let mut there = [0xff; 20];
            memory.read_slice(&mut there, GuestAddress(start)).unwrap();
            assert_eq!(&there, b"070701 and the rest\0");
        }
    }
}
