//! The directory from which `/proc` and `/sys` are read: `/`, or a made-up host in a test.
//!
//! Every function returns `None` for what is missing or malformed: that a host does not tell something is a fact too.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A place that holds `proc/` and `sys/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRoot(PathBuf);

impl HostRoot {
    /// The host as mounted at `path`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// Whether `path` exists.
    pub(super) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// The text of the file `path`, without the space around it.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// The file `path` as one value.
    pub(super) fn value<T: FromStr>(&self, path: &str) -> Option<T> {
        self.text(path)?.parse().ok()
    }

    /// Names in the directory `path`, sorted; none if it does not exist.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

impl Default for HostRoot {
    fn default() -> Self {
        Self(Path::new("/").to_owned())
    }
}
