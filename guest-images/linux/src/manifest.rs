//! What an image was made of, and the digests of its files. It tells whether the image is complete and up to date.

use crate::digest;
use crate::packages::Package;
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
    /// The manifest of a folder, if there is one that can be read.
    pub fn read(folder: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(folder.join(FILE)).ok()?).ok()
    }

    /// Writes the manifest to a folder.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        std::fs::write(folder.join(FILE), serde_json::to_vec_pretty(self)?)
    }

    /// Whether all files exist with their digests.
    pub fn is_whole(&self, folder: &Path) -> bool {
        let same =
            |(name, digest): (&String, &String)| digest::of_file(&folder.join(name)).ok().as_ref() == Some(digest);
        self.files.iter().all(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            release: "6.1.0-9-cloud-amd64".into(),
            inputs: Inputs { recipe: "r".into(), init: "i".into(), packages: Vec::new() },
            files: [("file".to_owned(), digest::of_bytes(b"contents"))].into(),
        }
    }

    #[test]
    fn a_manifest_is_read_as_written_and_its_files_are_watched() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Manifest::read(folder.path()), None);
        manifest().write(folder.path()).unwrap();
        let read = Manifest::read(folder.path()).unwrap();
        assert_eq!(read, manifest());
        assert!(!read.is_whole(folder.path()), "the file is not there");
        std::fs::write(folder.path().join("file"), "contents").unwrap();
        assert!(read.is_whole(folder.path()));
        std::fs::write(folder.path().join("file"), "changed").unwrap();
        assert!(!read.is_whole(folder.path()));
    }

    #[test]
    fn a_damaged_manifest_is_none() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), "{").unwrap();
        assert_eq!(Manifest::read(folder.path()), None);
    }
}
