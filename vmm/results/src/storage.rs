//! What can go wrong when a report's folder is written.

use std::io;
use std::path::PathBuf;

/// Why a file of a report cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// A directory cannot be made.
    #[error("cannot create the directory {}; name another one with --out", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}; make room there or name another directory with --out", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}
