//! The clocks of the staircases.

use super::matrix::{LEVELS, Stair};
use crate::time::{Nanos, Time};

/// Time while vCPUs wait, and time that is *free* because none does.
#[derive(Debug)]
pub(super) struct FreeTime {
    pub(super) now: Time,
    /// There are more runnable vCPUs than slots.
    pub(super) contended: bool,
    /// When it last became contended, or ceased to be.
    pub(super) turned: Time,
    /// Free time up to then.
    free: Nanos,
}

/// Where a vCPU stands on one slot's staircase that has always had exactly its share: a rotation further for each
/// rotation's worth of time that all runnable vCPUs there together have had. It is a fluid fair scheduler's virtual
/// time (Parekh and Gallager, 1993), in stairs.
#[derive(Debug)]
pub(super) struct Pace {
    /// What all runnable vCPUs may run in a rotation.
    pub(super) rotation: Nanos,
    /// What a vCPU of nice 0 may run in a rotation.
    usual_rotation: Nanos,
    /// In fractions of a stair.
    at: u64,
    /// Free time that is allowed for.
    free: Nanos,
}

/// Fractions of a stair.
const FRACTIONS: u64 = 1 << 16;

/// How far that much of a rotation leads.
fn fractions(ran: Nanos, rotation: Nanos) -> u64 {
    (u128::from(ran.0) * u128::from(LEVELS * FRACTIONS) / u128::from(rotation.0.max(1))) as u64
}

impl FreeTime {
    pub(super) fn new() -> Self {
        Self { now: Time(0), contended: false, turned: Time(0), free: Nanos::ZERO }
    }

    /// Free time so far.
    pub(super) fn so_far(&self, now: Time) -> Nanos {
        if self.contended { self.free } else { self.free + now.since(self.turned) }
    }

    pub(super) fn turn(&mut self, contended: bool, now: Time) {
        if contended != self.contended {
            self.free = self.so_far(now);
            (self.contended, self.turned) = (contended, now);
        }
    }
}

impl Pace {
    pub(super) fn new(usual_rotation: Nanos) -> Self {
        Self { rotation: Nanos::ZERO, usual_rotation, at: 0, free: Nanos::ZERO }
    }

    /// What was free is gained by all that slept; so the pace falls behind those that ran.
    pub(super) fn allow_for(&mut self, time: &FreeTime) {
        if time.contended && time.free > self.free {
            self.at = self.at.saturating_sub(fractions(time.free - self.free, self.usual_rotation));
            self.free = time.free;
        }
    }

    pub(super) fn pass(&mut self, ran: Nanos) {
        self.at += fractions(ran, self.rotation);
    }

    /// A vCPU that never slept has only now used up its quota on this stair: the pace goes this far, and no further.
    pub(super) fn hold(&mut self, stair: Stair) {
        self.at = self.at.min(stair * FRACTIONS);
    }

    pub(super) fn stair(&self) -> Stair {
        self.at / FRACTIONS
    }

    /// The pace keeps to where the vCPUs are: weights beyond a slot's time cannot be served, and move no vCPU.
    pub(super) fn keep_within(&mut self, lowest: Stair, highest: Stair) {
        self.at = self.at.clamp(lowest * FRACTIONS, highest * FRACTIONS);
    }
}
