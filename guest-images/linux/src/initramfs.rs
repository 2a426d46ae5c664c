//! The archive that a kernel unpacks as its first root: cpio in the form "newc".
//!
//! The same entries give the same bytes: they are written in the order of their paths, with no time and no owner but
//! root. Folders that a path needs are there without being asked for. It is not compressed: unpacking would cost a
//! guest more time than reading.

use cpio::newc::{Builder, ModeFileType, trailer};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

/// Permissions of a program.
pub const PROGRAM: u32 = 0o755;
/// Permissions of data.
pub const DATA: u32 = 0o644;

/// What a path is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    Folder,
    File { permissions: u32, bytes: Vec<u8> },
    Link { target: String },
    CharacterDevice { major: u32, minor: u32 },
}

/// A root file system to be. Paths are absolute, and a later entry takes the place of an earlier one.
#[derive(Debug, Clone, Default)]
pub struct Initramfs {
    entries: BTreeMap<String, Entry>,
}

impl Initramfs {
    /// With the console, without which the kernel gives the first process no input and output.
    pub fn new() -> Self {
        let mut new = Self::default();
        new.put("/dev/console", Entry::CharacterDevice { major: 5, minor: 1 });
        new
    }

    /// An empty folder.
    pub fn folder(&mut self, path: &str) {
        self.put(path, Entry::Folder);
    }

    /// A file.
    pub fn file(&mut self, path: &str, permissions: u32, bytes: impl Into<Vec<u8>>) {
        self.put(path, Entry::File { permissions, bytes: bytes.into() });
    }

    /// A copy of a file of the host's.
    pub fn copy(&mut self, path: &str, permissions: u32, from: &Path) -> Result<(), CopyError> {
        let bytes = std::fs::read(from).map_err(|source| CopyError { path: from.to_owned(), source })?;
        self.file(path, permissions, bytes);
        Ok(())
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.put(path, Entry::Link { target: target.to_owned() });
    }

    fn put(&mut self, path: &str, entry: Entry) {
        let path = path.trim_matches('/');
        for (slash, _) in path.match_indices('/') {
            self.entries.entry(path[..slash].to_owned()).or_insert(Entry::Folder);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Writes the archive.
    pub fn write(&self, mut out: impl Write) -> io::Result<()> {
        for (number, (path, entry)) in (1..).zip(&self.entries) {
            let builder = Builder::new(path).ino(number);
            let (builder, bytes) = match entry {
                Entry::Folder => (builder.mode(0o755).nlink(2).set_mode_file_type(ModeFileType::Directory), &[][..]),
                Entry::File { permissions, bytes } => {
                    (builder.mode(*permissions).set_mode_file_type(ModeFileType::Regular), &bytes[..])
                }
                Entry::Link { target } => {
                    (builder.mode(0o777).set_mode_file_type(ModeFileType::Symlink), target.as_bytes())
                }
                Entry::CharacterDevice { major, minor } => {
                    let node = builder.mode(0o600).rdev_major(*major).rdev_minor(*minor);
                    (node.set_mode_file_type(ModeFileType::Char), &[][..])
                }
            };
            let size = u32::try_from(bytes.len()).map_err(|_| too_large(path))?;
            let mut writer = builder.write(out, size);
            writer.write_all(bytes)?;
            out = writer.finish()?;
        }
        trailer(out)?.flush()
    }
}

fn too_large(path: &str) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, format!("{path} has 4 GiB or more, which an initramfs cannot hold"))
}

/// A file that an initramfs needs cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}")]
pub struct CopyError {
    path: std::path::PathBuf,
    #[source]
    source: io::Error,
}

#[cfg(test)]
mod tests {
    use super::*;
    use cpio::newc::Reader;
    use proptest::prelude::*;
    use std::io::Read;

    /// Path, mode and contents of each entry of an archive.
    fn read(mut archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut entries = Vec::new();
        loop {
            let mut reader = Reader::new(archive).unwrap();
            if reader.entry().is_trailer() {
                return entries;
            }
            let mut bytes = Vec::new();
            let (name, mode) = (reader.entry().name().to_owned(), reader.entry().mode());
            reader.read_to_end(&mut bytes).unwrap();
            entries.push((name, mode, bytes));
            archive = reader.finish().unwrap();
        }
    }

    fn written(initramfs: &Initramfs) -> Vec<u8> {
        let mut archive = Vec::new();
        initramfs.write(&mut archive).unwrap();
        archive
    }

    #[test]
    fn folders_come_before_what_is_in_them() {
        let mut initramfs = Initramfs::new();
        initramfs.file("/a/b/c", PROGRAM, "text");
        initramfs.link("/a/link", "b/c");
        initramfs.folder("/proc");
        let entries: Vec<_> = read(&written(&initramfs)).into_iter().map(|(name, mode, _)| (name, mode)).collect();
        let expected = [
            ("a", 0o040_755),
            ("a/b", 0o040_755),
            ("a/b/c", 0o100_755),
            ("a/link", 0o120_777),
            ("dev", 0o040_755),
            ("dev/console", 0o020_600),
            ("proc", 0o040_755),
        ];
        assert_eq!(entries, expected.map(|(name, mode)| (name.to_owned(), mode)));
    }

    #[test]
    fn a_link_holds_its_target() {
        let mut initramfs = Initramfs::default();
        initramfs.link("/sh", "busybox");
        assert_eq!(read(&written(&initramfs)), [("sh".to_owned(), 0o120_777, b"busybox".to_vec())]);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_whatever_the_order(
            files in prop::collection::btree_map("[a-z]{1,9}", prop::collection::vec(any::<u8>(), 0..99), 0..9),
        ) {
            let mut forward = Initramfs::new();
            files.iter().for_each(|(name, bytes)| forward.file(&format!("/x/{name}"), DATA, bytes.clone()));
            let mut backward = Initramfs::new();
            files.iter().rev().for_each(|(name, bytes)| backward.file(&format!("x/{name}"), DATA, bytes.clone()));
            let archive = written(&forward);
            prop_assert_eq!(&archive, &written(&backward));
            for (name, bytes) in files {
                let path = format!("x/{name}");
                prop_assert!(read(&archive).contains(&(path, 0o100_644, bytes)));
            }
        }
    }
}
