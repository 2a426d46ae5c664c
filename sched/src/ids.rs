//! Names of things: vCPUs, slots, and nice values.

use std::fmt;

/// A vCPU of a domain, unique within it while it lives; ids of vCPUs that ended are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VcpuId(pub u32);

impl VcpuId {
    /// As an index into the policy's tables.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for VcpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

/// A pCPU's place in its domain, counted from 0; not the host's CPU number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u16);

impl Slot {
    /// As an index into the policy's tables.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

/// A set of slots with a policy object of their own, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u16);

impl Shard {
    /// As an index into a table of shards.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s{}", self.0)
    }
}

/// Static priority: -20 (most CPU) to 19 (least).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nice(i8);

impl Nice {
    /// `None` outside -20..=19.
    #[inline]
    pub const fn new(nice: i8) -> Option<Self> {
        if nice >= -20 && nice <= 19 { Some(Self(nice)) } else { None }
    }

    /// -20..=19.
    #[inline]
    pub const fn get(self) -> i8 {
        self.0
    }
}
