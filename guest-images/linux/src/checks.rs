//! Which kernels and initramfs are used: those that nobody but the user and root can have written, and that are what
//! the manifest beside them says.

use crate::cache::Cache;
use crate::guest::{INITRAMFS_FILE, KERNEL_FILE};
use crate::manifest::{self, Manifest};
use crate::trust::{self, Untrusted};
use std::path::{Path, PathBuf};

/// Why an image is not used.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// There is none.
    #[error("{folder} has no kernel and initramfs")]
    None {
        /// Where it should be.
        folder: PathBuf,
    },
    /// Others may have written it.
    #[error(transparent)]
    Untrusted(#[from] Untrusted),
    /// Nothing tells how its files should be.
    #[error("{folder} has no {}, by which its files could be checked: make the image again", manifest::FILE)]
    NoManifest {
        /// Where it should be.
        folder: PathBuf,
    },
    /// A file is not what was made.
    #[error("{path} is not what {} beside it says: it was changed; make the image again", manifest::FILE)]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// The manifest does not name a file.
    #[error("{} beside {path} does not name it: take it from another folder, or make the image again", manifest::FILE)]
    Unnamed {
        /// The file.
        path: PathBuf,
    },
}

/// The kernel and the initramfs of the image in a folder of the user's choice. They may be of another origin: a
/// manifest is needed only in the cache.
pub fn files(folder: &Path) -> Result<(PathBuf, PathBuf), ImageError> {
    let paths = [KERNEL_FILE, INITRAMFS_FILE].map(|name| folder.join(name));
    if !paths.iter().all(|path| path.symlink_metadata().is_ok()) {
        return Err(ImageError::None { folder: folder.to_owned() });
    }
    trust::check_folder(folder)?;
    let manifest = Manifest::read(folder)?;
    for (name, path) in [KERNEL_FILE, INITRAMFS_FILE].into_iter().zip(&paths) {
        match &manifest {
            Some(manifest) => named(manifest, folder, name)?,
            None => drop(trust::open_file(path)?),
        }
    }
    let [kernel, initramfs] = paths;
    Ok((kernel, initramfs))
}

/// Checks the kernel or initramfs that a configuration names, if it is one of stile's images: if it is in the cache, or
/// has a manifest beside it that names it. Other files are the user's own affair.
pub fn check_file(file: &Path, cache: Option<&Cache>) -> Result<(), ImageError> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
        return Ok(());
    };
    let folder = if folder == Path::new("") { Path::new(".") } else { folder };
    let is_cached = |path: &Path| cache.is_some_and(|cache| is_below(path, &cache.path("")));
    if !is_cached(folder)
        && let Some(target) = file.canonicalize().ok().filter(|target| is_cached(target))
    {
        // A link from elsewhere to an image of the cache.
        return check_file(&target, cache);
    }
    let is_cached = is_cached(folder);
    let manifest = Manifest::read(folder)?.filter(|manifest| is_cached || manifest.files.contains_key(name));
    match manifest {
        None if is_cached => {
            trust::check_folder(folder)?;
            Err(ImageError::NoManifest { folder: folder.to_owned() })
        }
        None => Ok(()),
        Some(manifest) => {
            trust::check_folder(folder)?;
            named(&manifest, folder, name)
        }
    }
}

/// The manifest of the image in a folder, all files of which are checked.
pub(crate) fn whole(folder: &Path) -> Result<Manifest, ImageError> {
    if !folder.is_dir() {
        return Err(ImageError::None { folder: folder.to_owned() });
    }
    trust::check_folder(folder)?;
    let manifest = Manifest::read(folder)?.ok_or_else(|| ImageError::NoManifest { folder: folder.to_owned() })?;
    for name in [KERNEL_FILE, INITRAMFS_FILE] {
        named(&manifest, folder, name)?;
    }
    Ok(manifest)
}

fn named(manifest: &Manifest, folder: &Path, name: &str) -> Result<(), ImageError> {
    let path = folder.join(name);
    match manifest.holds(folder, name) {
        None => Err(ImageError::Unnamed { path }),
        Some(Ok(true)) => Ok(()),
        Some(Ok(false)) => Err(ImageError::Changed { path }),
        Some(Err(untrusted)) => Err(untrusted.into()),
    }
}

/// Whether a path is below a folder, however either is written.
fn is_below(path: &Path, folder: &Path) -> bool {
    let (Ok(path), Ok(folder)) = (path.canonicalize(), folder.canonicalize()) else { return false };
    path.starts_with(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest;
    use crate::manifest::Inputs;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    /// A cache with an image of small files.
    fn image() -> (tempfile::TempDir, Cache, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().join("stile"));
        let image = cache.folder("guests/linux").unwrap();
        for name in [KERNEL_FILE, INITRAMFS_FILE] {
            fs::write(image.join(name), name).unwrap();
        }
        let digests = [KERNEL_FILE, INITRAMFS_FILE].map(|name| (name.to_owned(), digest::of_bytes(name.as_bytes())));
        let inputs = Inputs { recipe: "r".into(), init: "i".into(), packages: Vec::new() };
        Manifest { release: "6.1".into(), inputs, files: digests.into() }.write(&image).unwrap();
        for name in [KERNEL_FILE, INITRAMFS_FILE, manifest::FILE] {
            fs::set_permissions(image.join(name), Permissions::from_mode(0o644)).unwrap();
        }
        (folder, cache, image)
    }

    /// What all three ways to an image say of its kernel.
    fn all(cache: &Cache, image: &Path) -> [Result<(), ImageError>; 3] {
        [files(image).map(drop), check_file(&image.join(KERNEL_FILE), Some(cache)), whole(image).map(drop)]
    }

    #[test]
    fn a_planted_kernel_or_initramfs_is_refused_by_name() {
        let (_folder, cache, image) = image();
        all(&cache, &image).into_iter().for_each(|result| result.unwrap());
        fs::write(image.join(KERNEL_FILE), "planted").unwrap();
        for result in all(&cache, &image) {
            let error = result.unwrap_err();
            assert!(matches!(&error, ImageError::Changed { path } if *path == image.join(KERNEL_FILE)), "{error}");
        }
        fs::write(image.join(KERNEL_FILE), KERNEL_FILE).unwrap();
        fs::write(image.join(INITRAMFS_FILE), "planted").unwrap();
        let refused = |result| matches!(result, Err(ImageError::Changed { path }) if path.ends_with(INITRAMFS_FILE));
        assert!(refused(files(&image).map(drop)) && refused(whole(&image).map(drop)));
        assert!(refused(check_file(&image.join(INITRAMFS_FILE), Some(&cache))));
    }

    #[test]
    fn an_image_that_others_may_write_is_refused_though_its_digests_hold() {
        let (_folder, cache, image) = image();
        for path in [image.join(KERNEL_FILE), image.clone(), cache.path("")] {
            let mode = fs::metadata(&path).unwrap().permissions().mode();
            fs::set_permissions(&path, Permissions::from_mode(mode | 0o002)).unwrap();
            for result in all(&cache, &image) {
                let refused =
                    matches!(&result, Err(ImageError::Untrusted(Untrusted::Writable { path: it, .. })) if *it == path);
                assert!(refused, "{path:?}: {result:?}");
            }
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
    }

    #[test]
    fn a_link_in_place_of_a_kernel_is_not_followed() {
        let (folder, cache, image) = image();
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(image.join(KERNEL_FILE), &elsewhere).unwrap();
        symlink(&elsewhere, image.join(KERNEL_FILE)).unwrap();
        for result in all(&cache, &image) {
            assert!(matches!(result, Err(ImageError::Untrusted(Untrusted::NotFile { .. }))), "{result:?}");
        }
    }

    #[test]
    fn a_link_from_elsewhere_to_an_image_of_the_cache_is_checked_there() {
        let (folder, cache, image) = image();
        let link = folder.path().join("vmlinuz");
        symlink(image.join(KERNEL_FILE), &link).unwrap();
        check_file(&link, Some(&cache)).unwrap();
        fs::write(image.join(KERNEL_FILE), "planted").unwrap();
        assert!(matches!(check_file(&link, Some(&cache)), Err(ImageError::Changed { .. })));
    }

    #[test]
    fn in_the_cache_there_must_be_a_manifest_that_names_the_file() {
        let (_folder, cache, image) = image();
        fs::write(image.join("other"), "").unwrap();
        assert!(matches!(check_file(&image.join("other"), Some(&cache)), Err(ImageError::Unnamed { .. })));
        fs::remove_file(image.join(manifest::FILE)).unwrap();
        assert!(matches!(check_file(&image.join(KERNEL_FILE), Some(&cache)), Err(ImageError::NoManifest { .. })));
        assert!(matches!(whole(&image), Err(ImageError::NoManifest { .. })));
        // In a folder of the user's choice it may be missing.
        files(&image).unwrap();
        check_file(&image.join(KERNEL_FILE), None).unwrap();
        fs::remove_file(image.join(KERNEL_FILE)).unwrap();
        assert!(matches!(files(&image), Err(ImageError::None { .. })));
    }
}
