//! What an image was made of, and the digests of its files. It tells whether the image is complete and up to date.

use crate::known_digests;
use crate::packages::Package;
use crate::trust::{self, Untrusted};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;

/// Name of the manifest in an image's folder.
pub const FILE: &str = "manifest.json";

/// The inputs of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inputs {
    /// Digest of the instructions by which it is made.
    pub recipe: String,
    /// Digest of the first process.
    pub init: String,
    /// The packages its files come from.
    pub packages: Vec<Package>,
}

/// An image's inputs and outputs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Release of the kernel.
    pub release: String,
    /// What it was made of.
    pub inputs: Inputs,
    /// Digest of each file.
    pub files: BTreeMap<String, String>,
}

impl Manifest {
    /// The manifest of a folder, if there is one that can be read. Fails if others may write it.
    pub fn read(folder: &Path) -> Result<Option<Self>, Untrusted> {
        let path = folder.join(FILE);
        // Other programs have files of this name, of which nothing is asked.
        let manifest = std::fs::read(&path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if manifest.is_some() {
            trust::open_file(&path)?;
        }
        Ok(manifest)
    }

    /// Writes the manifest to a folder.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::write(folder.join(FILE), serde_json::to_vec_pretty(self)?)
    }

    /// Whether a file is what the manifest says; `None` where it says nothing of it.
    pub fn holds(&self, folder: &Path, name: &str) -> Option<Result<bool, Untrusted>> {
        let expected = self.files.get(name)?;
        let path = folder.join(name);
        let digest = trust::open_file(&path)
            .and_then(|file| known_digests::of_open_file(&file).map_err(|source| Untrusted::Read { path, source }));
        Some(digest.map(|digest| digest == *expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest;

    fn manifest() -> Manifest {
        Manifest {
            release: "6.1.0-9-cloud-amd64".into(),
            inputs: Inputs { recipe: "r".into(), init: "i".into(), packages: Vec::new() },
            files: [("file".to_owned(), digest::of_bytes(b"contents"))].into(),
        }
    }

    fn read_in(folder: &Path) -> Option<Manifest> {
        Manifest::read(folder).unwrap()
    }

    #[test]
    fn a_manifest_that_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        manifest().write(folder.path()).unwrap();
        let path = folder.path().join(FILE);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o646)).unwrap();
        assert!(matches!(Manifest::read(folder.path()), Err(Untrusted::Writable { .. })));
    }

    #[test]
    fn a_manifest_is_read_as_written_and_its_files_are_watched() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_in(folder.path()), None);
        manifest().write(folder.path()).unwrap();
        let read = read_in(folder.path()).unwrap();
        assert_eq!(read, manifest());
        let holds = |name: &str| read.holds(folder.path(), name);
        assert!(matches!(holds("file"), Some(Err(Untrusted::Read { .. }))), "the file is not there");
        std::fs::write(folder.path().join("file"), "contents").unwrap();
        assert!(matches!(holds("file"), Some(Ok(true))));
        std::fs::write(folder.path().join("file"), "changed").unwrap();
        assert!(matches!(holds("file"), Some(Ok(false))));
        assert!(holds("another").is_none());
    }

    #[test]
    fn a_damaged_manifest_is_none() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert_eq!(read_in(folder.path()), None);
    }
}
