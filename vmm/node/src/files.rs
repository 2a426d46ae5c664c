//! Which files of the host VMs may use.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use stile_config::{Config, GuestConfig, ImageRef, VmConfig};

/// The files that VMs may use.
pub(crate) struct Allowed {
    /// Their folders; `None`: any.
    folders: Option<Vec<PathBuf>>,
    /// Those that the node's own configuration names.
    named: BTreeSet<PathBuf>,
}

/// A VM may not use a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotAllowed {
    /// The key that names the file.
    pub(crate) key: &'static str,
    /// The file.
    pub(crate) path: PathBuf,
}

impl Allowed {
    /// The files in these folders, or any, and those that a configuration names.
    pub(crate) fn new(folders: Option<Vec<PathBuf>>, config: &Config) -> Self {
        let named = config.vms.iter().flat_map(files_of).filter_map(|(_, path)| place_of(&path)).collect();
        Self { folders, named }
    }

    /// Whether a VM may use the files that it names. Returns the first that it may not use.
    pub(crate) fn allow(&self, config: &VmConfig) -> Result<(), NotAllowed> {
        let Some(folders) = &self.folders else { return Ok(()) };
        let may = |path: &Path| {
            place_of(path).is_some_and(|place| {
                self.named.contains(&place) || folders.iter().any(|folder| place.starts_with(folder))
            })
        };
        match files_of(config).into_iter().find(|(_, path)| !may(path)) {
            None => Ok(()),
            Some((key, path)) => Err(NotAllowed { key, path }),
        }
    }
}

/// Where a file is or would be made: its folder without links, and its name. `None`: its folder is not there.
fn place_of(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(folder.canonicalize().ok()?.join(path.file_name()?))
}

/// The files that a VM uses, by their keys.
fn files_of(config: &VmConfig) -> Vec<(&'static str, PathBuf)> {
    let mut files = Vec::new();
    match config.guest() {
        GuestConfig::Unikernel(ImageRef::Path(path)) => files.push(("image", path.clone())),
        GuestConfig::Unikernel(ImageRef::Builtin(_)) => {}
        GuestConfig::Linux { kernel, initrd } => {
            files.push(("kernel", kernel.as_ref().to_owned()));
            files.extend(initrd.map(|file| ("initrd", file.as_ref().to_owned())));
        }
    }
    files.extend(config.disk.as_ref().map(|disk| ("disk", disk.path.as_ref().to_owned())));
    files.extend(config.vsock.as_ref().map(|path| ("vsock", path.as_ref().to_owned())));
    files
}

#[cfg(test)]
mod tests {
    use super::*;
    use stile_config::LoadContext;

    fn config(file: &Path) -> Config {
        let context = LoadContext { pcpus_available: [0].into_iter().collect(), builtin_names: &["a"], policy: None };
        let vm = "[[vm]]\nname = \"a\"\nimage = \"builtin:a\"\n";
        let mut config = Config::parse("stile.toml", vm, &context).unwrap();
        config.vms[0].vsock = Some(file.to_str().unwrap().to_owned().try_into().unwrap());
        config
    }

    #[test]
    fn files_of_the_folders_and_of_the_configuration_may_be_used_and_no_others() {
        let root = std::env::temp_dir().canonicalize().unwrap().join(format!("stile-files-{}", std::process::id()));
        let (given, other) = (root.join("given"), root.join("other"));
        [&given, &other].into_iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
        let named = other.join("named");
        let allowed = Allowed::new(Some(vec![given.clone()]), &config(&named));
        let may = |path: &Path| allowed.allow(&config(path).vms[0]);
        assert_eq!(may(&given.join("a")), Ok(()));
        assert_eq!(may(&named), Ok(()));
        assert_eq!(may(&given.join("../other/named")), Ok(()));
        for path in [other.join("a"), given.join("../other/a"), given.join("none/a")] {
            assert_eq!(may(&path), Err(NotAllowed { key: "vsock", path: path.clone() }), "{}", path.display());
        }
        std::fs::remove_dir_all(root).unwrap();
    }
}
