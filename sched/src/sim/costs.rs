//! What things cost in a simulation.

use crate::time::Nanos;

/// What things cost (units: ns). By default everything is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Costs {
    /// An exit and the return to a guest.
    pub exit: Nanos,
    /// The part of it before the monitor has the exit, and asks.
    pub leave: Nanos,
    /// On top of it, if it returns to another vCPU.
    pub switch: Nanos,
    /// From a stamp on a busy slot to the exit it causes.
    pub kick: Nanos,
    /// From waking an idle slot to its question.
    pub wake: Nanos,
    /// From a guest's store until another guest that waits for it, running elsewhere, has seen it.
    pub hop: Nanos,
    /// On top of a switch, if the vCPU ran on another slot last.
    pub migration: Nanos,
    /// A question to the policy, from taking the lock of the run queue until another pCPU has it; zero: no lock.
    pub lock: Nanos,
}
