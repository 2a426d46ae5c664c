//! The suites of Debian that kernels and emulators come from.

use stile_linux_images::packages::PackageError;
use stile_linux_images::{Archive, Cache};

/// A suite, by its age or by what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// That of the Debian that this machine runs
    Own,
    /// Debian 12, with Linux 6.1 and QEMU 7.2
    #[value(aliases = ["6.1", "7.2"])]
    Oldest,
    /// Debian 13, with Linux 6.12 and QEMU 10.0
    #[value(aliases = ["6.12", "10.0"])]
    Stable,
    /// Debian's testing, with Linux 7.2 and QEMU 11.1, or later ones
    #[value(aliases = ["7.x", "11.x"])]
    Newest,
}

impl Suite {
    /// Its name in the archive, but for the machine's own.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Own => None,
            Self::Oldest => Some("bookworm"),
            Self::Stable => Some("trixie"),
            Self::Newest => Some("forky"),
        }
    }

    /// Its packages.
    pub(crate) fn archive(self, cache: &Cache, tell: &mut dyn FnMut(&str)) -> Result<Archive, PackageError> {
        self.name().map_or_else(|| Ok(Archive::of_machine()), |name| Archive::of_suite(name, cache, tell))
    }
}
