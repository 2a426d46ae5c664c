//! Whether only root and the user can have written a file.
//!
//! A digest says that a file is what was made. It says so only where nobody else can change the file, or the manifest
//! with its digest. So every folder from the root down is looked at as well.

use rustix::fs::{Mode, OFlags};
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

/// Bits of a mode with which others may write: the group's, and everybody's.
const WRITABLE: u32 = 0o022;
/// In a folder with this bit, nobody may remove or rename what belongs to others.
const STICKY: u32 = 0o1000;
/// Links that are followed on the way to a folder, as many as the kernel follows.
const LINKS: usize = 40;

/// Why a file or a folder is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// Others may write it.
    #[error("{path} may be written by others (mode {mode:o}): look whether it is as it should be, and `chmod go-w` it")]
    Writable {
        /// What.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// It belongs to somebody else.
    #[error("{path} belongs to user {owner}, who is neither you nor root: remove it, or take a folder of your own")]
    Owner {
        /// What.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// It is neither a file nor a folder.
    #[error("{path} is a symbolic link or no file, and no link is followed there: put the file itself in its place")]
    NotFile {
        /// What.
        path: PathBuf,
    },
    /// It cannot be looked at.
    #[error("cannot read {path}")]
    Read {
        /// What.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
}

impl Untrusted {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Read { path: path.to_owned(), source }
    }
}

/// Checks a folder and the way to it. Links on the way are followed if they are root's or the user's own.
pub fn check_folder(folder: &Path) -> Result<(), Untrusted> {
    let (way, last) = way(folder)?;
    way.iter().try_for_each(|(path, metadata)| may_pass(path, metadata))?;
    check(&last.0, &last.1)
}

/// Opens a file that must be one itself and not a link to one. The way to it is not looked at.
pub fn open_file(path: &Path) -> Result<File, Untrusted> {
    // A pipe that somebody put there would have no end.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::LOOP) => return Err(Untrusted::NotFile { path: path.to_owned() }),
        Err(error) => return Err(Untrusted::read(path)(error.into())),
    };
    let metadata = file.metadata().map_err(Untrusted::read(path))?;
    if !metadata.is_file() {
        return Err(Untrusted::NotFile { path: path.to_owned() });
    }
    check(path, &metadata)?;
    Ok(file)
}

/// Checks the owner and the permissions of one thing.
pub(crate) fn check(path: &Path, metadata: &Metadata) -> Result<(), Untrusted> {
    check_owner(path, metadata)?;
    match metadata.mode() & WRITABLE {
        0 => Ok(()),
        _ => Err(Untrusted::Writable { path: path.to_owned(), mode: metadata.mode() & 0o7777 }),
    }
}

/// Checks a folder on the way. Others may write there if they cannot put anything in the place of the next one.
fn may_pass(path: &Path, metadata: &Metadata) -> Result<(), Untrusted> {
    if metadata.mode() & STICKY == 0 { check(path, metadata) } else { check_owner(path, metadata) }
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), Untrusted> {
    let (owner, own) = (metadata.uid(), rustix::process::geteuid().as_raw());
    match owner == own || owner == 0 {
        true => Ok(()),
        false => Err(Untrusted::Owner { path: path.to_owned(), owner }),
    }
}

type Place = (PathBuf, Metadata);

/// The folders that a path goes through, all links followed, and what it leads to.
fn way(path: &Path) -> Result<(Vec<Place>, Place), Untrusted> {
    let mut open = parts(&std::path::absolute(path).map_err(Untrusted::read(path))?);
    let mut at = place(Path::new("/"))?;
    let mut passed = Vec::new();
    let mut links = 0;
    while let Some(part) = open.pop() {
        let next = place(&at.0.join(part))?;
        if !next.1.is_symlink() {
            passed.push(std::mem::replace(&mut at, next));
            continue;
        }
        check_owner(&next.0, &next.1)?;
        links += 1;
        if links > LINKS {
            return Err(Untrusted::NotFile { path: path.to_owned() });
        }
        let target = std::fs::read_link(&next.0).map_err(Untrusted::read(&next.0))?;
        // A path joined to an absolute one is that one, of which the parts begin at the root.
        if target.is_absolute() {
            passed.push(std::mem::replace(&mut at, place(Path::new("/"))?));
        }
        open.extend(parts(&target));
    }
    Ok((passed, at))
}

/// The names in a path, the first one last. `..` is one of them: the kernel knows the parent of a link's target.
fn parts(path: &Path) -> Vec<OsString> {
    let name = |part: Component<'_>| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().rev().filter_map(name).collect()
}

fn place(path: &Path) -> Result<Place, Untrusted> {
    let metadata = std::fs::symlink_metadata(path).map_err(Untrusted::read(path))?;
    Ok((path.to_owned(), metadata))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn allow(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    /// A folder `outer/inner` with a file in it.
    fn folders() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        let file = inner.join("file");
        fs::write(&file, "text").unwrap();
        for (path, mode) in [(inner.parent().unwrap(), 0o755), (&inner, 0o755), (&file, 0o644)] {
            allow(path, mode);
        }
        (folder, inner, file)
    }

    #[test]
    fn what_is_the_users_own_is_trusted_below_a_folder_for_all_as_well() {
        // Temporary files are in a folder with the sticky bit.
        let (_folder, inner, file) = folders();
        check_folder(&inner).unwrap();
        assert_eq!(io::read_to_string(open_file(&file).unwrap()).unwrap(), "text");
    }

    #[test]
    fn what_others_may_write_is_refused_and_so_is_what_is_below() {
        let (_folder, inner, file) = folders();
        for (path, mode) in [(&*inner, 0o775), (&inner, 0o757), (&inner, 0o1777), (inner.parent().unwrap(), 0o775)] {
            allow(path, mode);
            let error = check_folder(&inner).unwrap_err();
            assert!(matches!(&error, Untrusted::Writable { path: named, .. } if named == path), "{mode:o}: {error}");
            assert!(error.to_string().contains("chmod go-w"), "{error}");
            allow(path, 0o755);
        }
        for mode in [0o664, 0o646] {
            allow(&file, mode);
            assert!(matches!(open_file(&file), Err(Untrusted::Writable { mode: told, .. }) if told == mode));
        }
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("skipped: only root can give a file away");
        }
        let (_folder, inner, file) = folders();
        std::os::unix::fs::chown(&file, Some(4242), None).unwrap();
        assert!(matches!(open_file(&file), Err(Untrusted::Owner { owner: 4242, .. })));
        std::os::unix::fs::chown(inner.parent().unwrap(), Some(4242), None).unwrap();
        assert!(matches!(check_folder(&inner), Err(Untrusted::Owner { owner: 4242, .. })));
    }

    #[test]
    fn a_link_to_a_file_is_not_followed_and_one_to_a_folder_only_by_a_trusted_way() {
        let (folder, inner, file) = folders();
        let link = inner.join("link");
        symlink(&file, &link).unwrap();
        assert!(matches!(open_file(&link), Err(Untrusted::NotFile { path }) if path == link));
        let [to_folder, relative] = ["to-folder", "relative"].map(|name| folder.path().join(name));
        symlink(&inner, &to_folder).unwrap();
        symlink("outer/../outer/inner", &relative).unwrap();
        for link in [&to_folder, &relative] {
            check_folder(link).unwrap();
        }
        allow(inner.parent().unwrap(), 0o777);
        for link in [to_folder, relative] {
            assert!(matches!(check_folder(&link), Err(Untrusted::Writable { .. })), "{link:?}");
        }
        let endless = folder.path().join("endless");
        symlink(&endless, &endless).unwrap();
        assert!(matches!(check_folder(&endless), Err(Untrusted::NotFile { .. })));
    }

    #[test]
    fn a_pipe_or_a_folder_in_place_of_a_file_is_refused_without_waiting() {
        let (_folder, inner, _) = folders();
        let pipe = inner.join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for path in [pipe, inner] {
            assert!(matches!(open_file(&path), Err(Untrusted::NotFile { .. })), "{path:?}");
        }
    }
}
