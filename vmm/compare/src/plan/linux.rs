//! What Linux guests boot, and the monitor that they are compared with.

use std::path::PathBuf;

/// What Linux guests boot, and what they are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linux {
    /// The kernel.
    pub kernel: PathBuf,
    /// The initramfs, whose first process is stile's.
    pub initrd: PathBuf,
    /// Another monitor that boots the same.
    pub peer: Option<Peer>,
}

/// A monitor to compare with: QEMU's microvm machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Its program.
    pub program: PathBuf,
    /// The place among the policies that is its.
    pub column: usize,
}

impl Linux {
    /// The peer, if cells of this policy are the peer's.
    pub(crate) fn peer_of(&self, policy: usize) -> Option<&Peer> {
        self.peer.as_ref().filter(|peer| peer.column == policy)
    }
}

impl Peer {
    /// What it is called in reports.
    pub const LABEL: &'static str = "qemu-microvm";
    /// How to install it.
    pub const REMEDY: &'static str = "apt-get install --no-install-recommends qemu-system-x86";
    /// The program's name.
    const PROGRAM: &'static str = "qemu-system-x86_64";

    /// The peer as the policy after so many others, if its program is installed.
    pub fn find(policies: usize) -> Option<Self> {
        let path = std::env::var_os("PATH")?;
        let program = std::env::split_paths(&path).map(|folder| folder.join(Self::PROGRAM)).find(|file| file.is_file());
        Some(Self { program: program?, column: policies })
    }
}
