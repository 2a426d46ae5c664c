//! Setups: what a user can choose of a suite besides its size.

use super::load::Load;

/// A variant of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setup {
    /// The suite has one setup only, or the choice is left to it.
    Usual,
    /// On all pCPUs, or on one.
    On(Processors),
    /// On all pCPUs, with a domain for each. VMs that exchange messages, and the device work between them, stay on one
    /// pCPU.
    Affinity,
    /// Without a VM: threads do the scheduler's part of leaving a guest and going on.
    Bare(Processors),
    /// Work without locks, or with a lock.
    Locks(bool),
    /// VMs of this shape.
    Each(VmShape),
    /// Probes beside this load.
    Load(Load),
}

/// The pCPUs that are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processors {
    /// The first one: its writes need not be seen by another pCPU.
    Up,
    /// All pCPUs.
    Smp,
}

/// The shape of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmShape {
    /// Number of vCPUs.
    pub vcpus: u32,
    /// Memory (unit: MiB).
    pub mib: u32,
}

/// The error for a name of no setup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no setup is called `{0}`; there are up, smp, affinity, bare-up, bare-smp, no-locks, locks, none, memload, execload, \
     forkload, make, make-ccache, and VCPUSxMEMORY such as 4x16M"
)]
pub struct UnknownSetup(String);

impl Processors {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Smp => "smp",
        }
    }
}

impl Setup {
    /// Whether a suite that offers `self` accepts `other`: a suite that offers a shape of VM accepts any shape.
    pub(super) fn offers(self, other: Self) -> bool {
        self == other || matches!((self, other), (Self::Each(_), Self::Each(_)))
    }

    /// The size that belongs to the setup, for suites that take it from there.
    pub fn usual_size(self) -> Option<u32> {
        match self {
            Self::Load(load) => Some(load.usual_size()),
            Self::Usual | Self::On(_) | Self::Affinity | Self::Bare(_) | Self::Locks(_) | Self::Each(_) => None,
        }
    }
}

impl std::fmt::Display for Setup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Usual => f.write_str("usual"),
            Self::On(processors) => f.write_str(processors.name()),
            Self::Affinity => f.write_str("affinity"),
            Self::Bare(processors) => write!(f, "bare-{}", processors.name()),
            Self::Locks(false) => f.write_str("no-locks"),
            Self::Locks(true) => f.write_str("locks"),
            Self::Load(load) => f.write_str(load.name()),
            Self::Each(VmShape { vcpus, mib }) => write!(f, "{vcpus}x{mib}M"),
        }
    }
}

impl std::str::FromStr for Setup {
    type Err = UnknownSetup;

    fn from_str(name: &str) -> Result<Self, UnknownSetup> {
        use Processors::{Smp, Up};
        let named = [Self::On(Up), Self::On(Smp), Self::Affinity, Self::Bare(Up), Self::Bare(Smp)];
        let named = named.into_iter().chain([Self::Locks(false), Self::Locks(true)]).chain(Load::ALL.map(Self::Load));
        let shape = || {
            let (vcpus, mib) = name.strip_suffix('M')?.split_once('x')?;
            let (vcpus, mib) = (vcpus.parse().ok()?, mib.parse().ok()?);
            ((1..=1024).contains(&vcpus) && (1..=65_536).contains(&mib)).then_some(Self::Each(VmShape { vcpus, mib }))
        };
        let found = named.into_iter().find(|setup| setup.to_string() == name);
        found.or_else(shape).ok_or_else(|| UnknownSetup(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_setup_is_refused_with_all_names() {
        for name in ["", "usual", "4x", "0x8M", "4x16", "x8M", "2000x8M"] {
            let refused = name.parse::<Setup>().unwrap_err().to_string();
            assert!(refused.contains("bare-up") && refused.contains("4x16M"), "{refused}");
        }
    }
}
