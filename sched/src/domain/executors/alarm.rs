//! A policy's alarm: which executor of its shard tells it the time.
//!
//! One of them watches, by its timer or, idle, by its parker. An executor that asks takes the watch over if the alarm
//! is earlier than what is watched: it sets its timer anyway. Any other thread that makes the alarm earlier tells the
//! watcher.
//!
//! Invariant, outside the lock: the watcher asks when the alarm comes, or has been told to ask.

use super::shared::{Act, DUE_AT_ONCE, LockedState, Shared};
use crate::ids::Slot;
use crate::policy::Placement;
use crate::time::Time;

/// The executor that watches, and what for.
#[derive(Debug)]
pub(super) struct Watch {
    slot: Slot,
    at: Time,
}

impl Watch {
    /// The executor of this slot watches first.
    pub(super) fn new(slot: Slot) -> Self {
        Self { slot, at: Time::NEVER }
    }

    /// What the executor of this slot watches for.
    pub(super) fn of(&self, slot: Slot) -> Time {
        if slot == self.slot { self.at } else { Time::NEVER }
    }
}

impl Shared {
    /// The executor of this slot has asked. What it watches for from now on.
    pub(super) fn watch(&self, state: &mut LockedState, slot: Slot) -> Time {
        let at = state.ledger.alarm();
        if at < state.watch.at || slot == state.watch.slot {
            state.watch = Watch { slot, at };
        }
        state.watch.of(slot)
    }

    /// After an answer to something else than a question: the watcher to tell of an earlier alarm.
    pub(super) fn tell_watcher(&self, state: &mut LockedState) -> Option<Act> {
        let at = state.ledger.alarm();
        let earlier = at < state.watch.at;
        state.watch.at = state.watch.at.min(at);
        earlier.then_some(Act::Look(state.watch.slot))
    }

    /// Lets vCPUs go on that the policy held back.
    pub(super) fn tick(&self, state: &mut LockedState, now: Time, mut act: impl FnMut(Act)) {
        for _ in 0..DUE_AT_ONCE {
            if state.ledger.alarm() > now {
                break;
            }
            let Some(resumed) = state.ledger.tick(now) else { break };
            placed(resumed.placement).into_iter().for_each(&mut act);
        }
    }
}

/// What is to be done for a vCPU that went there.
pub(super) fn placed(placement: Placement) -> Option<Act> {
    match placement {
        Placement::Run(slot) => Some(Act::Rouse(slot)),
        Placement::Preempt(slot) | Placement::Queue(Some(slot)) => Some(Act::Ask(slot)),
        Placement::Queue(None) | Placement::Held => None,
    }
}
