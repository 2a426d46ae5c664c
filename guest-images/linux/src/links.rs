//! The shared libraries of programs whose packages do not all have to be named: a library that is missing is in one of
//! the packages that its user's package depends on.
//!
//! So only packages are fetched that have a library, and those beside them that the same package depends on. What
//! packages depend on for other reasons (a driver that a library loads at run time) is not.

use crate::archive::Archive;
use crate::cache::Cache;
use crate::libraries::{self, LibraryError};
use crate::packages::{Package, PackageError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Libraries, and where they come from.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// The libraries: path in the guest, and the file.
    pub(crate) libraries: BTreeMap<String, PathBuf>,
    /// The packages that had to be fetched for them, in that order.
    pub(crate) packages: Vec<Package>,
}

/// Why the libraries cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum LinksError {
    /// One is in no package.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// A package cannot be had.
    #[error(transparent)]
    Package(#[from] PackageError),
}

/// Finds all libraries that programs need, in the folders of unpacked packages, by their names, and in other packages
/// of the archive as far as it needs them.
pub(crate) fn of_programs(
    programs: &[PathBuf],
    unpacked: &BTreeMap<String, PathBuf>,
    archive: &Archive,
    cache: &Cache,
    tell: &mut dyn FnMut(&str),
) -> Result<Links, LinksError> {
    let mut links = Links::default();
    let mut folders = unpacked.clone();
    loop {
        let roots: Vec<PathBuf> = folders.values().cloned().collect();
        let missing = match libraries::of_programs(programs, &roots) {
            Ok(libraries) => return Ok(Links { libraries, ..links }),
            Err(missing) => missing,
        };
        let LibraryError::Missing { user, .. } = &missing else { return Err(missing.into()) };
        let Some(owner) = owner(user, &folders) else { return Err(missing.into()) };
        let depends = archive.depends_of(owner)?;
        let new: Vec<Package> = depends.into_iter().filter(|package| !folders.contains_key(&package.name)).collect();
        if new.is_empty() {
            return Err(missing.into());
        }
        for package in new {
            folders.insert(package.name.clone(), package.files(archive, cache, tell)?);
            links.packages.push(package);
        }
    }
}

/// The package that has a file.
fn owner<'a>(file: &Path, folders: &'a BTreeMap<String, PathBuf>) -> Option<&'a str> {
    folders.iter().find(|(_, folder)| file.starts_with(folder)).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_the_package_in_whose_folder_it_is() {
        let folders = BTreeMap::from([("a".to_owned(), "/cache/a".into()), ("ab".to_owned(), "/cache/ab".into())]);
        assert_eq!(owner(Path::new("/cache/ab/usr/bin/x"), &folders), Some("ab"));
        assert_eq!(owner(Path::new("/usr/bin/x"), &folders), None);
    }

    #[test]
    fn what_is_unpacked_already_needs_no_package() {
        let program = std::env::current_exe().unwrap();
        let host = BTreeMap::from([("host".to_owned(), PathBuf::from("/"))]);
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().to_owned());
        let mut tell = |what: &str| panic!("{what}");
        let links = of_programs(&[program], &host, &Archive::of_machine(), &cache, &mut tell).unwrap();
        assert!(links.packages.is_empty() && links.libraries.keys().any(|path| path.ends_with("/libc.so.6")));
    }
}
