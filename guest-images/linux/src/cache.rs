//! The cache folder: unpacked packages, and images made of them.
//!
//! An entry with a name is complete: it was made under another name in the same folder and then renamed. So processes
//! may share a cache without a lock; at worst they make the same entry twice. The folder may be deleted at any time.
//!
//! Nobody but the user and root may be able to write there: programs from it are run.

use crate::trust::{self, Untrusted};
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A cache folder.
#[derive(Debug, Clone)]
pub struct Cache {
    root: PathBuf,
}

/// Why there is no cache folder, or something cannot be put there.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The environment names no folder.
    #[error("there is no cache folder: neither XDG_CACHE_HOME nor HOME is an absolute path; set one of them")]
    NoHome,
    /// Others may have put something there.
    #[error("the cache folder is not safe to use")]
    Untrusted(#[from] Untrusted),
    /// The folder cannot be written.
    #[error("cannot write to the cache folder: {path}")]
    Write {
        /// What was to be written.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
}

impl Cache {
    /// The user's cache: `stile` in XDG_CACHE_HOME, which is by default `.cache` in HOME.
    pub fn of_user() -> Result<Self, CacheError> {
        Self::from_environment(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")).ok_or(CacheError::NoHome)
    }

    fn from_environment(cache: Option<OsString>, home: Option<OsString>) -> Option<Self> {
        // A relative XDG_CACHE_HOME is to be ignored, as its specification says.
        let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute(cache).or_else(|| absolute(home).map(|home| home.join(".cache")))?;
        Some(Self::new(base.join("stile")))
    }

    /// A folder of the caller's choice.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// The cache's folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of the entry of this name, once there is one. The name may have slashes.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A folder of this name, which is made unless it is there.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, CacheError> {
        let path = self.path(name);
        // Whatever others may do by default in what the user makes.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|source| CacheError::Write { path: path.clone(), source })?;
        trust::check_folder(&path)?;
        Ok(path)
    }

    /// A folder in which to make an entry. It is on the same file system as the entry, so that renaming works. It
    /// vanishes unless it is put.
    pub fn workshop(&self) -> Result<TempDir, CacheError> {
        let write = |source| CacheError::Write { path: self.root.clone(), source };
        self.folder("")?;
        tempfile::Builder::new().prefix(".making-").tempdir_in(&self.root).map_err(write)
    }

    /// Gives a folder that was made in a workshop its name. If another process was faster, the folder of that process
    /// stays.
    pub fn put_folder(&self, made: &Path, name: &str) -> Result<PathBuf, CacheError> {
        let path = self.path(name);
        let write = |source| CacheError::Write { path: path.clone(), source };
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.folder(parent)?;
        }
        match std::fs::rename(made, &path) {
            Err(_) if path.is_dir() => Ok(path),
            done => done.map_err(write).map(|()| path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_follows_the_environment_and_ignores_relative_paths() {
        let root = |cache: Option<&str>, home: Option<&str>| {
            Cache::from_environment(cache.map(Into::into), home.map(Into::into)).map(|cache| cache.root)
        };
        assert_eq!(root(Some("/c"), Some("/h")), Some("/c/stile".into()));
        assert_eq!(root(None, Some("/h")), Some("/h/.cache/stile".into()));
        assert_eq!(root(Some("c"), Some("/h")), Some("/h/.cache/stile".into()));
        assert_eq!(root(Some(""), None), None);
    }

    #[test]
    fn nothing_is_put_into_a_cache_that_others_may_write() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("stile"));
        drop(cache.workshop().unwrap());
        std::fs::set_permissions(cache.path(""), std::fs::Permissions::from_mode(0o770)).unwrap();
        let refused = |result| matches!(result, Err(CacheError::Untrusted(Untrusted::Writable { .. })));
        assert!(refused(cache.workshop().map(drop)));
        let made = folder.path().join("made");
        std::fs::create_dir(&made).unwrap();
        assert!(refused(cache.put_folder(&made, "unpacked/thing").map(drop)));
    }

    #[test]
    fn a_folder_put_twice_is_there_once_and_workshops_vanish() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("stile"));
        for content in ["first", "second"] {
            let workshop = cache.workshop().unwrap();
            let made = workshop.path().join("made");
            std::fs::create_dir(&made).unwrap();
            std::fs::write(made.join("file"), content).unwrap();
            let put = cache.put_folder(&made, "unpacked/thing").unwrap();
            assert_eq!(std::fs::read_to_string(put.join("file")).unwrap(), "first");
        }
        assert_eq!(std::fs::read_dir(cache.path("")).unwrap().count(), 1);
    }
}
