//! Shards: a domain whose pCPUs are divided into sets, each with a policy object and a lock of its own.
//!
//! One lock serves some two million questions a second, so a policy object that serves all pCPUs of a large machine is
//! its limit. A shard's object knows only its own slots and vCPUs. vCPUs go from one shard to another:
//!
//! 1. *Idle*: a slot that would idle takes the next vCPU of the nearest shard where one waits. A shard in which a vCPU
//!    has to wait while another has an idle slot tells that one to look.
//! 2. *Lag*: at the end of a lease and at a yield, a slot looks at one other shard, a different one each time. It takes
//!    the next vCPU there if that stands more than [`LAG`] stairs above its own next one, at a yield more than [`FAR`].
//!    At the end of a lease it also takes it if no vCPU waits here. While vCPUs wait in some shard, no shard's time is
//!    free: one that runs alone pays for it, and stands further down when it next waits.
//! 3. *Yield*: a yield that names a queued vCPU of another shard brings it here, where it can be let through.
//! 4. *Wake*: a vCPU that is woken by the vCPU that [mostly wakes it](crate::policy::Policy::follows) goes to the shard
//!    of that one, unless more vCPUs are at home there already.
//!
//! What shards know of each other is what each publishes on the [`Board`], without a lock and perhaps late. A vCPU goes
//! by two questions, [`Policy::departs`](crate::policy::Policy::departs) to the one object and
//! [`Policy::arrives`](crate::policy::Policy::arrives) to the other. No two locks are held at a time.
//!
//! This follows the run queues of Xen's credit2, one for each cache, and the lateral steal of the RT patch: only among
//! equals, never class rt.

mod admission;
mod board;
mod looks;
mod plan;

pub use admission::Admission;
pub use board::{Board, Known};
pub use looks::Looks;
pub use plan::ShardPlan;

/// How far the next vCPU of a shard may stand above another shard's before that one takes it (unit: stairs).
pub const LAG: u64 = 2;
/// As [`LAG`], at a yield. A vCPU that yields often would otherwise move vCPUs about for differences that even out by
/// themselves.
pub const FAR: u64 = 2 * LAG;
