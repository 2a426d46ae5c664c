//! The shared libraries that programs need, found without running anything: what their ELF files name, and what those
//! name.

use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where libraries are looked for, from the root, in this order: where Debian's loader looks without a configuration,
/// and where other distributions' does.
const FOLDERS: [&str; 6] = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu", "lib", "usr/lib", "lib64", "usr/lib64"];

/// Why not all libraries are found.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// A file is no program or library.
    #[error("{path} is not a 64-bit ELF file")]
    NotElf {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: object::read::Error,
    },
    /// A library is not there.
    #[error("{user} needs {library}, which is in none of {roots:?}")]
    Missing {
        /// Whose library it is.
        user: PathBuf,
        /// Its name.
        library: String,
        /// Where it was looked for.
        roots: Vec<PathBuf>,
    },
}

/// What one file needs.
#[derive(Debug, Default, PartialEq, Eq)]
struct Needs {
    /// The loader, as an absolute path.
    interpreter: Option<String>,
    /// Names of libraries.
    libraries: Vec<String>,
}

/// All libraries that the programs need, the loader among them: absolute path in the guest, and the file. They are
/// looked for under each of the roots, of which one may be `/`.
pub fn of_programs(programs: &[PathBuf], roots: &[PathBuf]) -> Result<BTreeMap<String, PathBuf>, LibraryError> {
    let mut found = BTreeMap::new();
    let mut open = programs.to_vec();
    while let Some(user) = open.pop() {
        let needs = Needs::of(&user)?;
        let missing = |library: String| LibraryError::Missing { user: user.clone(), library, roots: roots.to_vec() };
        let loader = needs.interpreter.map(|path| (path.trim_start_matches('/').to_owned(), path));
        let loader = loader.map(|(at, path)| find(roots, &[at]).ok_or_else(|| missing(path)));
        let library = |name: String| {
            let places = FOLDERS.map(|folder| format!("{folder}/{name}"));
            find(roots, &places).ok_or_else(|| missing(name))
        };
        for place in loader.into_iter().chain(needs.libraries.into_iter().map(library)) {
            let (path, file) = place?;
            if found.insert(path, file.clone()).is_none() {
                open.push(file);
            }
        }
    }
    Ok(found)
}

/// The first of the places that is there under a root, and the file.
fn find(roots: &[PathBuf], places: &[String]) -> Option<(String, PathBuf)> {
    let all = places.iter().flat_map(|place| roots.iter().map(move |root| (place, root.join(place))));
    let (place, file) = all.into_iter().find(|(_, file)| file.is_file())?;
    Some((format!("/{place}"), file))
}

impl Needs {
    fn of(path: &Path) -> Result<Self, LibraryError> {
        let bytes = std::fs::read(path).map_err(|source| LibraryError::Read { path: path.to_owned(), source })?;
        Self::parse(&bytes).map_err(|source| LibraryError::NotElf { path: path.to_owned(), source })
    }

    fn parse(bytes: &[u8]) -> object::read::Result<Self> {
        let header = FileHeader64::<Endianness>::parse(bytes)?;
        let endian = header.endian()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut needs = Self::default();
        for segment in header.program_headers(endian, bytes)? {
            let interpreter = segment.interpreter(endian, bytes)?.map(text);
            needs.interpreter = needs.interpreter.or(interpreter);
        }
        let table = header.sections(endian, bytes)?.dynamic_table(endian, bytes)?;
        for entry in table.iter().filter(|entry| entry.tag == DT_NEEDED) {
            needs.libraries.push(text(table.string(entry)?));
        }
        Ok(needs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_needs_a_loader_and_the_c_library_which_are_found_on_its_host() {
        let program = std::env::current_exe().unwrap();
        let needs = Needs::of(&program).unwrap();
        assert!(needs.libraries.iter().any(|name| name == "libc.so.6"), "{needs:?}");
        let found = of_programs(&[program], &["/".into()]).unwrap();
        assert!(found.keys().any(|path| path.ends_with("/libc.so.6")), "{found:?}");
        assert!(found.keys().any(|path| Some(path) == needs.interpreter.as_ref()), "{found:?}");
    }

    #[test]
    fn a_library_that_is_not_there_is_named_with_who_needs_it() {
        let program = std::env::current_exe().unwrap();
        let empty = tempfile::tempdir().unwrap();
        let error = of_programs(std::slice::from_ref(&program), &[empty.path().to_owned()]).unwrap_err();
        assert!(matches!(&error, LibraryError::Missing { user, .. } if *user == program), "{error}");
    }

    #[test]
    fn a_static_program_needs_nothing() {
        let init = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(init.path(), stile_guest_images::image("hello").unwrap()).unwrap();
        assert_eq!(of_programs(&[init.path().to_owned()], &[]).unwrap(), BTreeMap::new());
    }

    #[test]
    fn what_is_no_elf_file_is_refused() {
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), "#!/bin/sh\n").unwrap();
        let error = of_programs(&[script.path().to_owned()], &[]).unwrap_err();
        assert!(matches!(error, LibraryError::NotElf { .. }), "{error}");
    }
}
