//! The limits of the staircase and of yields: how far a vCPU may stand from the served stair, and how long it may go
//! on.

use super::config::RsdlConfig;
use super::matrix::{Row, Stair};
use crate::policy::decision::Lease;
use crate::policy::queue::WINDOW;
use crate::time::Nanos;

/// The longest lease with the default interval: half of nice -20's quota of 60 ms, and a whole one. Class rt has 80 ms.
pub(crate) const LONGEST_LEASE: Nanos = Nanos::from_millis(90);

/// How far above the served stair a woken vCPU may stand: one quota's step at nice 0.
pub(crate) const LAG: Stair = 2;
/// How far a slot's next vCPU may stand below one that waits for another slot: one quota's step at nice 0. From further
/// down, the slot takes that one first.
pub(crate) const DRIFT: Stair = 2;
/// As [`DRIFT`], for a slot whose vCPU blocks.
pub(crate) const FAR: Stair = 2 * DRIFT;
/// How far above the served stair a vCPU may stand: [`LAG`], and what it [may bring](brought).
pub(super) fn kept(config: &RsdlConfig) -> Stair {
    LAG + brought(config)
}
/// How far a vCPU may have fallen behind in the queue or the shard from which it comes.
pub(super) fn brought(config: &RsdlConfig) -> Stair {
    if config.per_pcpu_queues || config.shares { 3 * DRIFT } else { 0 }
}

/// How late a kick can end a lease at the cost of its vCPU, unless that was late by its own doing.
pub(super) const LATE: Nanos = Lease::LATE;
/// What a kick takes from the vCPU that is made to leave: the exit, and the way back. Whoever caused the kick pays it.
pub(super) const KICK_COST: Nanos = Nanos::from_micros(5);
/// vCPUs that owe more than their place shows, and are put further back in one pick.
pub(super) const PUT_BACK: usize = 8;
/// Unbroken running that ends a wait: a vCPU that computes this long has got what it yielded for.
pub(super) const COMPUTES: Nanos = Nanos::from_millis(1);
/// Unbroken running after which yields are forgiven anew.
pub(super) const WORKS: Nanos = Nanos::from_micros(200);
/// How far below the served stair a vCPU can fall.
pub(super) const DEEPEST: Stair = WINDOW - LAG - 2;
/// How far a vCPU can fall beyond two steps of its row by what it runs on its leases. A vCPU that gets there moves the
/// served stair along. So a vCPU that always lets others through saves up no more than that. What a stalled host adds
/// beyond that at once is forgiven. What a vCPU made a thread do beyond its leases is not: it may stand further down.
pub(super) const DEBT: Stair = 8;
/// How far below the head a vCPU may stand and still be let past it: one quota's step at nice 0.
pub(crate) const REACH: Stair = 2;
/// Yields in a row that let a vCPU go on while the peer it waits for runs.
pub(crate) const STAYS: u32 = 20;

/// A lease's rest that an eviction must save to be worth its kick.
pub(crate) const WORTH: Nanos = Nanos::from_micros(300);

/// How far below the served stair a vCPU of this row can fall.
pub(super) fn deepest(row: Row) -> Stair {
    DEEPEST.min(2 * row.longest_step + DEBT)
}
