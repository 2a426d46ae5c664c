//! The clock of the staircase.

use super::matrix::{LEVELS, Stair};
use crate::time::{Nanos, Time};

/// Time as the staircase counts it.
///
/// While there are more runnable vCPUs than slots, the *pace* moves: it is where a vCPU stands that has always had
/// exactly its share, a rotation further for each rotation's worth of time that all runnable vCPUs together have had.
/// It is a fluid fair scheduler's virtual time (Parekh and Gallager, 1993), in stairs. Otherwise time is *free*.
#[derive(Debug)]
pub(super) struct Clock {
    pub(super) now: Time,
    pub(super) contended: bool,
    /// When it last became contended, or ceased to be.
    pub(super) turned: Time,
    /// Free time up to then.
    pub(super) free: Nanos,
    /// What all runnable vCPUs may run in a rotation.
    pub(super) rotation: Nanos,
    /// What a vCPU of nice 0 may run in a rotation.
    pub(super) usual_rotation: Nanos,
    /// In fractions of a stair.
    pub(super) pace: u64,
}

/// Fractions of a stair.
const FRACTIONS: u64 = 1 << 16;

/// How far that much of a rotation leads.
fn fractions(ran: Nanos, rotation: Nanos) -> u64 {
    (u128::from(ran.0) * u128::from(LEVELS * FRACTIONS) / u128::from(rotation.0.max(1))) as u64
}

impl Clock {
    pub(super) fn new(usual_rotation: Nanos) -> Self {
        let (now, turned, free, rotation) = (Time(0), Time(0), Nanos::ZERO, Nanos::ZERO);
        Self { now, contended: false, turned, free, rotation, usual_rotation, pace: 0 }
    }

    /// The last time anything happened.
    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// Free time so far.
    pub(super) fn free(&self, now: Time) -> Nanos {
        if self.contended { self.free } else { self.free + now.since(self.turned) }
    }

    pub(super) fn turn(&mut self, contended: bool, now: Time) {
        if contended == self.contended {
            return;
        }
        if contended {
            // What was free is gained by all that slept; so the pace falls behind those that ran.
            let free = now.since(self.turned);
            self.pace = self.pace.saturating_sub(fractions(free, self.usual_rotation));
        }
        self.free = self.free(now);
        (self.contended, self.turned) = (contended, now);
    }

    pub(super) fn pass(&mut self, ran: Nanos) {
        self.pace += fractions(ran, self.rotation);
    }

    /// A vCPU that never slept has only now used up its quota on this stair: the pace goes this far, and no further.
    pub(super) fn hold(&mut self, stair: Stair) {
        self.pace = self.pace.min(stair * FRACTIONS);
    }

    pub(super) fn stair(&self) -> Stair {
        self.pace / FRACTIONS
    }

    /// The pace keeps to where the vCPUs are: weights beyond a slot's time cannot be served, and move no vCPU.
    pub(super) fn keep_within(&mut self, lowest: Stair, highest: Stair) {
        self.pace = self.pace.clamp(lowest * FRACTIONS, highest * FRACTIONS);
    }
}
