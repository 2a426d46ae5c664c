//! Tests of policies on the simulator: what its rules come to, and what must be true of any policy.

mod goodness;
pub(crate) mod harness;
mod held_back;
mod o1;
mod old;
mod overruns;
mod properties;
mod queues;
mod regressions;
mod shards;
mod stalls;
