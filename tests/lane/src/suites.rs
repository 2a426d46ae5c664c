//! The suites of Debian that kernels and emulators come from.

use stile_linux_images::packages::PackageError;
use stile_linux_images::{Archive, Cache};

/// A suite, by the kernel that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Suite {
    /// That of the Debian that this machine runs
    Own,
    /// Debian 12, with Linux 6.1
    #[value(alias = "6.1")]
    Oldest,
    /// Debian 13, with Linux 6.12
    #[value(name = "6.12")]
    Middle,
    /// Debian's testing, with Linux 7.2 or later
    #[value(alias = "7.x")]
    Newest,
}

impl Suite {
    /// Its name in the archive, but for the machine's own.
    fn name(self) -> Option<&'static str> {
        match self {
            Self::Own => None,
            Self::Oldest => Some("bookworm"),
            Self::Middle => Some("trixie"),
            Self::Newest => Some("forky"),
        }
    }

    /// Its packages.
    pub(crate) fn archive(self, cache: &Cache, tell: &mut dyn FnMut(&str)) -> Result<Archive, PackageError> {
        self.name().map_or_else(|| Ok(Archive::of_machine()), |name| Archive::of_suite(name, cache, tell))
    }
}
