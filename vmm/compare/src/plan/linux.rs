//! The files that Linux guests boot, and the monitor that they are compared with.

use std::path::PathBuf;
use stile_config::VmInterrupts;

/// The files that Linux guests boot, and the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linux {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initramfs. Its first process is stile's.
    pub initrd: PathBuf,
    /// Where the guests' interrupt controllers are.
    pub interrupts: VmInterrupts,
    /// Another monitor that boots the same files.
    pub peer: Option<Peer>,
}

/// The peer: QEMU's microvm machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The path of its program.
    pub program: PathBuf,
    /// Its index among the policies.
    pub column: usize,
}

impl Linux {
    /// Returns the peer if it measures cells of this policy.
    pub(crate) fn peer_of(&self, policy: usize) -> Option<&Peer> {
        self.peer.as_ref().filter(|peer| peer.column == policy)
    }
}

impl Peer {
    /// Its label in reports.
    pub const LABEL: &'static str = "qemu-microvm";
    /// How to install it.
    pub const REMEDY: &'static str = "apt-get install --no-install-recommends qemu-system-x86";
    /// The program's name.
    const PROGRAM: &'static str = "qemu-system-x86_64";

    /// Finds the peer's program. The peer then counts as the policy after `others` others.
    pub fn find(policies: usize) -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        let program = std::env::split_paths(&path).map(|folder| folder.join(Self::PROGRAM)).find(|file| file.is_file());
        Some(Self { program: program?, column: policies })
    }
}
