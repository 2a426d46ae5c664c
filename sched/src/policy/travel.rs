//! What passes between the [shards](crate::shards) of a domain about vCPUs that go from one to another.

use crate::ids::VcpuId;
use crate::time::Nanos;

/// A queued vCPU that may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spare {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// The stair it stands on.
    pub stair: u64,
    /// It came from another shard and has not run since: only an idle slot may take it.
    pub came: bool,
}

/// How far a shard has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// The stair being served.
    pub stair: u64,
    /// There are more runnable vCPUs than slots.
    pub contended: bool,
    /// How long a quota can be with as many vCPUs as run here; zero under a policy whose quotas are fixed.
    pub quota: Nanos,
}

/// How far the shards of a domain have got. Stairs are comparable because quotas are as long in all shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Front {
    /// The furthest stair served by a shard in which vCPUs wait.
    pub stair: u64,
    /// The shortest quota of all shards.
    pub quota: Nanos,
    /// vCPUs wait in some shard: what runs in the others meanwhile is not free.
    pub contended: bool,
}

/// What a vCPU has earned where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traveller {
    /// It was queued there.
    pub queued: bool,
    /// The stair it stands on.
    pub stair: u64,
    /// So many stairs of that it owes: they keep it waiting, and move no other vCPU along.
    pub owes: u64,
    /// What it has used of its quota there.
    pub used: Nanos,
    /// It waits for another vCPU, and its last yield said so.
    pub waits: bool,
}
