//! The unix socket of a node: its path, and who is there already.

use rustix::fs::{Mode, chmod};
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The socket cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another node listens there.
    #[error("a node listens on {} already", .0.display())]
    InUse(PathBuf),
    /// There is something else.
    #[error("{} is there, and is no socket", .0.display())]
    NotSocket(PathBuf),
    /// The host refuses.
    #[error("cannot listen on {}", path.display())]
    Refused {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl SocketError {
    /// What to do about it.
    pub fn remedy(&self) -> String {
        match self {
            Self::InUse(_) => "end that node, or name another socket with --socket".to_owned(),
            Self::NotSocket(_) => "name another path with --socket, or remove what is there".to_owned(),
            Self::Refused { path, .. } => {
                let folder = path.parent().unwrap_or(Path::new(".")).display();
                format!("the folder {folder} must be there, and the user who runs stile must be allowed to write to it")
            }
        }
    }
}

/// The path where a node of this user listens, and is looked for: that in STILE_SOCKET, or `stile/stile.sock` in the
/// folder for run-time files (XDG_RUNTIME_DIR; /run for root).
pub fn default_path() -> PathBuf {
    if let Some(path) = std::env::var_os("STILE_SOCKET").filter(|path| !path.is_empty()) {
        return path.into();
    }
    let folder = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty());
    let is_root = rustix::process::geteuid().is_root();
    let folder = if is_root { PathBuf::from("/run") } else { folder.map_or_else(std::env::temp_dir, PathBuf::from) };
    folder.join("stile").join("stile.sock")
}

/// Listens on a socket at this path. One that a dead process left there is replaced. The user's group may connect.
///
/// # Errors
/// A node listens there, there is another kind of file, or the host refuses.
pub fn listen(path: &Path) -> Result<UnixListener, SocketError> {
    let refused = |source| SocketError::Refused { path: path.to_owned(), source };
    match path.symlink_metadata() {
        Ok(found) if !found.file_type().is_socket() => return Err(SocketError::NotSocket(path.to_owned())),
        Ok(_) if UnixStream::connect(path).is_ok() => return Err(SocketError::InUse(path.to_owned())),
        Ok(_) => std::fs::remove_file(path).map_err(refused)?,
        Err(_) => {
            // The default folder is made; one that a user names has to be there.
            if path == default_path()
                && let Some(folder) = path.parent()
            {
                std::fs::create_dir_all(folder).map_err(refused)?;
            }
        }
    }
    let listener = UnixListener::bind(path).map_err(refused)?;
    chmod(path, Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP).map_err(|e| refused(e.into()))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_nobody_listens_on_is_replaced_and_anything_else_is_not() {
        let folder = std::env::temp_dir().join(format!("stile-socket-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("node.sock");
        let first = listen(&path).unwrap();
        assert!(matches!(listen(&path), Err(SocketError::InUse(_))));
        drop(first);
        drop(listen(&path).unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "kept").unwrap();
        assert!(matches!(listen(&path), Err(SocketError::NotSocket(_))));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "kept");
        let none = listen(&folder.join("none").join("node.sock")).unwrap_err();
        assert!(none.remedy().contains("must be there"), "{none}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
