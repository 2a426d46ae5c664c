//! Yields, and what the yielding vCPU waits for.

use crate::ids::VcpuId;

/// A yield, as the guest meant it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Yield {
    /// What it waits for.
    pub wait: Wait,
    /// Not the first yield of this wait.
    pub again: bool,
}

/// What a yielding vCPU waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Nothing known.
    Unknown,
    /// Nothing known, and the vCPU did not yield: it was seen spinning. *Again* then means that it has made no progress
    /// since it was last seen.
    Spin,
    /// A lock held by this vCPU.
    Lock(VcpuId),
    /// A message from this vCPU.
    Message(VcpuId),
}
