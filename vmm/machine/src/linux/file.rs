//! Opens files that a Linux guest boots from, and checks that each is a regular file with contents.
//!
//! The contents are not read here. Sizes that are read later are not trusted: every reader stays within the length that
//! was found here.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// An open file that is not empty.
#[derive(Debug)]
pub struct GuestFile {
    path: PathBuf,
    file: File,
    length: u64,
}

/// Why a file cannot be booted from, whatever its contents.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be opened.
    #[error("cannot be opened: {0}")]
    Open(#[source] io::Error),
    /// Not a regular file: a directory, a device, a pipe.
    #[error("is {0}, not a file")]
    NotAFile(&'static str),
    /// The file is empty.
    #[error("is empty")]
    Empty,
}

impl FileError {
    /// A remedy, for the user.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Open(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                "let this user read it (such as by `chmod +r`), or copy it to where that is so"
            }
            Self::Open(_) | Self::NotAFile(_) => "name a file; a relative path starts at the configuration file",
            Self::Empty => "fetch it again",
        }
    }
}

impl GuestFile {
    /// Opens a file for reading.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        // Opening a pipe without a writer would otherwise wait.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).map_err(FileError::Open)?;
        let found = file.metadata().map_err(FileError::Open)?;
        let kind = found.file_type();
        if kind.is_dir() {
            return Err(FileError::NotAFile("a directory"));
        }
        if !kind.is_file() {
            return Err(FileError::NotAFile("a device, a pipe or a socket"));
        }
        match found.len() {
            0 => Err(FileError::Empty),
            length => Ok(Self { path: path.to_owned(), file, length }),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its length when it was opened (units: bytes).
    pub fn length(&self) -> u64 {
        self.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_regular_files_with_something_in_them_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("empty"), "").unwrap();
        fs::write(at("one"), "1").unwrap();
        assert!(matches!(GuestFile::open(folder.path()), Err(FileError::NotAFile("a directory"))));
        assert!(matches!(GuestFile::open(Path::new("/dev/null")), Err(FileError::NotAFile(_))));
        assert!(matches!(GuestFile::open(&at("empty")), Err(FileError::Empty)));
        assert!(matches!(GuestFile::open(&at("none")), Err(FileError::Open(_))));
        assert_eq!(GuestFile::open(&at("one")).unwrap().length(), 1);
    }

    #[test]
    fn a_file_that_may_not_be_read_is_told_with_the_remedy() {
        let denied = FileError::Open(io::Error::from(io::ErrorKind::PermissionDenied));
        assert!(denied.remedy().contains("chmod") && denied.to_string().contains("ermission denied"));
        // Tests that run as root can read it nevertheless.
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "1").unwrap();
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o000)).unwrap();
        if let Err(error) = GuestFile::open(file.path()) {
            assert!(error.remedy().contains("chmod"), "{error}");
        }
    }
}
