//! The kernel of unpacked packages.
//!
//! Older packages have it as `boot/vmlinuz-RELEASE`, newer ones as `usr/lib/modules/RELEASE/vmlinuz`.

use std::path::{Path, PathBuf};

/// A kernel's file and its release, such as `6.1.0-9-cloud-amd64`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// The file, a bzImage.
    pub file: PathBuf,
    /// The release.
    pub release: String,
}

/// The one kernel in packages that are unpacked at these roots.
pub fn of_packages(roots: &[PathBuf]) -> Option<Kernel> {
    let mut all = roots.iter().flat_map(|root| in_boot(&root.join("boot")).chain(with_modules(root)));
    all.next().filter(|_| all.next().is_none())
}

fn in_boot(boot: &Path) -> impl Iterator<Item = Kernel> + use<> {
    entries(boot).filter_map(|file| {
        let release = file.file_name()?.to_str()?.strip_prefix("vmlinuz-")?.to_owned();
        Some(Kernel { file, release })
    })
}

fn with_modules(root: &Path) -> impl Iterator<Item = Kernel> + use<> {
    entries(&root.join("usr/lib/modules")).filter_map(|folder| {
        let release = folder.file_name()?.to_str()?.to_owned();
        Some(Kernel { file: folder.join("vmlinuz"), release }).filter(|kernel| kernel.file.is_file())
    })
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_where_packages_of_either_age_have_it() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new, none] = ["old", "new", "none"].map(|name| folder.path().join(name));
        let places = [(&old, "boot", "vmlinuz-6.1.0-9-amd64"), (&new, "usr/lib/modules/7.2-amd64", "vmlinuz")];
        for (root, place, name) in places {
            std::fs::create_dir_all(root.join(place)).unwrap();
            std::fs::write(root.join(place).join(name), "").unwrap();
        }
        let release = |roots: &[&PathBuf]| {
            let roots: Vec<PathBuf> = roots.iter().map(|root| (*root).clone()).collect();
            of_packages(&roots).map(|kernel| kernel.release)
        };
        assert_eq!(release(&[&old]).as_deref(), Some("6.1.0-9-amd64"));
        assert_eq!(release(&[&none, &new]).as_deref(), Some("7.2-amd64"));
        assert_eq!(release(&[&none]), None);
        assert_eq!(release(&[&old, &new]), None, "two kernels");
    }
}
