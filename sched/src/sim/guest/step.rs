//! A step of a guest, and where a guest is in its loop.

use crate::time::{Nanos, Time};
use crate::wait::Yield;

/// What a guest does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sim) enum Step {
    /// Runs for so long.
    Compute(Nanos),
    /// Runs until [`Guest::ready`](super::Guest::ready), but not longer than this.
    Spin(Nanos),
    /// Makes an exit by which its thread works for it so long. No kick reaches the thread meanwhile.
    Device(Nanos),
    /// Yields.
    Yield(Yield),
    /// Waits for an event, or for this time.
    Idle(Time),
    /// Sends the events it has put there by an exit, and goes on.
    Kick,
}

/// Where a guest is in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Between two rounds.
    Apart,
    /// It spins for what it waits for.
    Waiting {
        /// It has yielded for it already.
        again: bool,
        /// How often it spins on for a target that runs.
        looks: u32,
    },
    /// It yielded, or went to sleep, for what it waits for.
    Yielded,
    /// It has got it.
    Working,
}
