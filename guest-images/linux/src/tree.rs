//! What a package was unpacked to, kept beside its files: a list of all that is there, with digests.
//!
//! An entry of the cache has the package's files in one folder and the list beside it. Files that were changed, added
//! or removed since, or that others may write, are refused.

use crate::digest;
use crate::trust::{self, Untrusted};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Component, Path, PathBuf};

/// The folder with the package's files, in an entry of the cache.
pub(crate) const FILES: &str = "files";
/// The list.
const LIST: &str = "list.json";
/// The bits of a mode that files of a package keep.
const KEPT: u32 = 0o755;

/// Why an unpacked package is not used.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// Others may have written it.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// It is not as it was.
    #[error("{path} is not what its package brought: it was changed, added or removed; remove {entry}")]
    Changed {
        /// The file.
        path: PathBuf,
        /// The entry of the cache.
        entry: PathBuf,
    },
    /// Its list cannot be understood.
    #[error("{path} is no list of a package's files: remove its folder")]
    List {
        /// The list.
        path: PathBuf,
        /// The reason.
        #[source]
        source: serde_json::Error,
    },
    /// A file cannot be looked at, or set to the user's own.
    #[error("cannot read {path}")]
    Read {
        /// What.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
}

/// By path from the package's root: what is there.
type List = BTreeMap<String, String>;

/// Makes the files of an entry the user's own, and writes their list. Absolute links begin at the package's root. Links
/// that lead out of the package are removed: to follow them would take files of the host.
pub(crate) fn seal(entry: &Path) -> Result<(), TreeError> {
    let root = entry.join(FILES);
    for path in everything(&root)? {
        let metadata = fs::symlink_metadata(&path).map_err(read(&path))?;
        if metadata.is_symlink() {
            root_in_package(&root, &path).map_err(read(&path))?;
        }
        if leads_out(&root, &path, &metadata) {
            fs::remove_file(&path).map_err(read(&path))?;
            continue;
        }
        let own = rustix::process::geteuid().as_raw();
        if metadata.uid() != own {
            lchown(&path, Some(own), None).map_err(read(&path))?;
        }
        if !metadata.is_symlink() {
            fs::set_permissions(&path, Permissions::from_mode(metadata.mode() & KEPT)).map_err(read(&path))?;
        }
    }
    // New folders and files may be the group's as well by default.
    fs::set_permissions(entry, Permissions::from_mode(KEPT)).map_err(read(entry))?;
    let path = entry.join(LIST);
    let list =
        serde_json::to_vec_pretty(&list(&root)?).map_err(|source| TreeError::List { path: path.clone(), source })?;
    fs::write(&path, list).map_err(read(&path))?;
    fs::set_permissions(&path, Permissions::from_mode(0o644)).map_err(read(&path))
}

/// Checks that an entry has what its list says, and that nobody else may write any of it. Returns the folder with the
/// package's files.
pub(crate) fn check(entry: &Path) -> Result<PathBuf, TreeError> {
    trust::check_folder(entry)?;
    let (root, path) = (entry.join(FILES), entry.join(LIST));
    let text = io::read_to_string(trust::open_file(&path)?).map_err(read(&path))?;
    let expected: List = serde_json::from_str(&text).map_err(|source| TreeError::List { path, source })?;
    let found = list(&root)?;
    let differs = |name: &&String| expected.get(*name) != found.get(*name);
    match expected.keys().chain(found.keys()).find(differs) {
        Some(name) => Err(TreeError::Changed { path: root.join(name), entry: entry.to_owned() }),
        None => Ok(root),
    }
}

/// Lists what is in a folder, and refuses what others may write.
fn list(root: &Path) -> Result<List, TreeError> {
    let mut list = List::new();
    for path in everything(root)? {
        let metadata = fs::symlink_metadata(&path).map_err(read(&path))?;
        let what = if metadata.is_symlink() {
            format!("link {:?}", fs::read_link(&path).map_err(read(&path))?)
        } else {
            trust::check(&path, &metadata)?;
            match metadata.is_dir() {
                true => "folder".to_owned(),
                false => format!("file {}", digest::of_open_file(&trust::open_file(&path)?).map_err(read(&path))?),
            }
        };
        let name = path.strip_prefix(root).unwrap_or(&path);
        // With the quotes and escapes of `Debug`, names that are not UTF-8 stay different.
        let name = name.to_str().map_or_else(|| format!("{name:?}"), str::to_owned);
        list.insert(name, what);
    }
    Ok(list)
}

/// All paths in a folder, and the folder itself.
fn everything(root: &Path) -> Result<Vec<PathBuf>, TreeError> {
    let (mut all, mut open) = (vec![root.to_owned()], vec![root.to_owned()]);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).map_err(read(&folder))? {
            let entry = entry.map_err(read(&folder))?;
            // Of the entry itself, not of what a link leads to.
            if entry.file_type().map_err(read(&folder))?.is_dir() {
                open.push(entry.path());
            }
            all.push(entry.path());
        }
    }
    Ok(all)
}

/// Has an absolute link begin at the package's root, as it will in the guest, and not at the host's.
fn root_in_package(root: &Path, path: &Path) -> io::Result<()> {
    let target = fs::read_link(path)?;
    let Ok(target) = target.strip_prefix("/") else { return Ok(()) };
    let depth = path.strip_prefix(root).map_or(1, |path| path.components().count());
    let up: PathBuf = std::iter::repeat_n("..", depth.saturating_sub(1)).collect();
    fs::remove_file(path)?;
    symlink(up.join(target), path)
}

/// Whether this is a link by which one leaves the package's folder.
fn leads_out(root: &Path, path: &Path, metadata: &fs::Metadata) -> bool {
    if !metadata.is_symlink() {
        return false;
    }
    let Ok(target) = fs::read_link(path) else { return true };
    let depth = path.strip_prefix(root).map_or(0, |path| path.components().count());
    // The link's own name is replaced by its target.
    let mut depth = depth.saturating_sub(1);
    for part in target.components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
        }
    }
    // By way of another link it may still be elsewhere than its text says.
    match (path.canonicalize(), root.canonicalize()) {
        (Ok(path), Ok(root)) => !path.starts_with(root),
        _ => false,
    }
}

fn read(path: &Path) -> impl FnOnce(io::Error) -> TreeError {
    |source| TreeError::Read { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An entry with a program, a library with a link to it, and an empty folder.
    fn entry() -> (tempfile::TempDir, PathBuf) {
        let entry = tempfile::tempdir().unwrap();
        let root = entry.path().join(FILES);
        for folder in ["bin", "lib", "empty"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        for file in ["bin/busybox", "lib/x.so.1"] {
            fs::write(root.join(file), file).unwrap();
        }
        symlink("x.so.1", root.join("lib/x.so")).unwrap();
        (entry, root)
    }

    fn sealed() -> (tempfile::TempDir, PathBuf) {
        let (entry, root) = entry();
        seal(entry.path()).unwrap();
        assert_eq!(check(entry.path()).unwrap(), root);
        (entry, root)
    }

    #[track_caller]
    fn changed(entry: &Path, path: &Path) {
        let error = check(entry).unwrap_err();
        assert!(matches!(&error, TreeError::Changed { path: named, .. } if named == path), "{error}");
        assert!(error.to_string().contains(&format!("remove {}", entry.display())), "{error}");
    }

    #[test]
    fn a_changed_program_is_refused_by_name() {
        let (entry, root) = sealed();
        fs::write(root.join("bin/busybox"), "planted").unwrap();
        changed(entry.path(), &root.join("bin/busybox"));
    }

    #[test]
    fn files_that_were_added_or_removed_or_made_links_are_refused() {
        let (entry, root) = sealed();
        fs::write(root.join("empty/more"), "").unwrap();
        changed(entry.path(), &root.join("empty/more"));
        let (entry, root) = sealed();
        fs::remove_file(root.join("lib/x.so.1")).unwrap();
        changed(entry.path(), &root.join("lib/x.so.1"));
        let (entry, root) = sealed();
        fs::remove_file(root.join("lib/x.so")).unwrap();
        symlink("/etc/passwd", root.join("lib/x.so")).unwrap();
        changed(entry.path(), &root.join("lib/x.so"));
        // The contents are the same, but no longer the package's own.
        let (entry, root) = sealed();
        let elsewhere = entry.path().join("elsewhere");
        fs::rename(root.join("bin/busybox"), &elsewhere).unwrap();
        symlink(&elsewhere, root.join("bin/busybox")).unwrap();
        changed(entry.path(), &root.join("bin/busybox"));
    }

    #[test]
    fn files_and_folders_that_others_may_write_are_refused() {
        for name in ["", "files", "files/bin", "files/bin/busybox", LIST] {
            let (entry, _) = sealed();
            let path = entry.path().join(name);
            let mode = fs::metadata(&path).unwrap().mode() | 0o020;
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let error = check(entry.path()).unwrap_err();
            assert!(matches!(&error, TreeError::Untrusted(Untrusted::Writable { .. })), "{name}: {error}");
        }
    }

    #[test]
    fn an_entry_without_a_list_or_with_half_of_one_is_refused() {
        let (entry, _) = sealed();
        fs::write(entry.path().join(LIST), "{").unwrap();
        assert!(matches!(check(entry.path()), Err(TreeError::List { .. })));
        fs::remove_file(entry.path().join(LIST)).unwrap();
        assert!(matches!(check(entry.path()), Err(TreeError::Untrusted(Untrusted::Read { .. }))));
    }

    #[test]
    fn links_that_lead_out_of_a_package_are_removed_and_its_files_made_private() {
        let (entry, root) = entry();
        let out = [("absolute", "/etc/passwd"), ("bin/up", "../../list.json"), ("bin/chain", "../absolute")];
        for (name, target) in out {
            symlink(target, root.join(name)).unwrap();
        }
        // As the C library's package has its loader.
        symlink("/lib/x.so.1", root.join("bin/loader")).unwrap();
        // It goes up from where another link leads, which is higher than its text says.
        symlink(".", root.join("bin/here")).unwrap();
        symlink("here/../../../outside", root.join("bin/detour")).unwrap();
        fs::write(entry.path().join("outside"), "").unwrap();
        fs::set_permissions(root.join("bin/busybox"), Permissions::from_mode(0o6777)).unwrap();
        seal(entry.path()).unwrap();
        for name in ["absolute", "bin/up", "bin/chain", "bin/detour"] {
            // A link to a link that is gone leads nowhere.
            assert!(!root.join(name).exists(), "{name}");
        }
        assert_eq!(fs::metadata(root.join("bin/busybox")).unwrap().mode() & 0o7777, 0o755);
        assert_eq!(fs::read_to_string(root.join("lib/x.so")).unwrap(), "lib/x.so.1");
        assert_eq!(fs::read_to_string(root.join("bin/loader")).unwrap(), "lib/x.so.1");
        check(entry.path()).unwrap();
    }
}
