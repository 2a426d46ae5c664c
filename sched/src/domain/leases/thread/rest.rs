//! A thread without a slot: what it waits for, and how it gets a slot or ends.

use super::{End, Thread};
use crate::domain::cpu_meter::NOTICED;
use crate::ids::Slot;
use crate::slot::Word;
use crate::sync::Ordering;
use crate::time::{Time, monotonic};
use std::ops::ControlFlow::{self, Break, Continue};

/// How a thread without a slot waits.
#[derive(Clone, Copy)]
pub(in crate::domain::leases) struct Rest {
    /// The deadline of its vCPU.
    pub(in crate::domain::leases) until: Time,
    /// Its vCPU waits for an event that only it sees.
    pub(in crate::domain::leases) dozes: bool,
    /// The slot it left without telling the policy.
    pub(in crate::domain::leases) nap: Option<Slot>,
}

impl Rest {
    /// Until another thread wakes it.
    pub(in crate::domain::leases) const PLAIN: Self = Self { until: Time::NEVER, dozes: false, nap: None };
}

impl<W: Word> Thread<'_, W> {
    /// Waits until the vCPU has a slot; tells since when.
    pub(super) fn wait(&mut self, mut rest: Rest) -> ControlFlow<End, (Slot, Time)> {
        let began = monotonic();
        self.unsets_timer(began);
        loop {
            if self.shared.ending.load(Ordering::Relaxed) {
                return Break(End::Domain(rest));
            }
            if let Some(slot) = self.me.take_grant()
                && self.word(slot).start(self.id)
            {
                self.lease_end = self.me.lease_end();
                let (handed, waited) = self.me.handed();
                let now = monotonic();
                self.ways += now.since(handed);
                let late = now.since(handed);
                if self.has_cap || late >= NOTICED {
                    self.late = late;
                }
                self.waited = waited + self.ways;
                self.tell_missed();
                self.rests.learn(now.since(began));
                return Continue((slot, now));
            }
            if self.me.retiring.load(Ordering::Relaxed) && self.leave() {
                return Break(End::Retired);
            }
            if self.me.events.pending() {
                if let Some(back) = self.seen_to(&mut rest) {
                    self.rests.learn(back.1.since(began));
                    return Continue(back);
                }
                continue;
            }
            self.arm_boost(rest);
            let woken = if rest.dozes { self.doze() } else { self.me.parker.wait(rest.until) };
            if rest.until != Time::NEVER {
                self.times_out = !woken;
            }
            if !woken {
                (rest.until, rest.dozes) = (Time::NEVER, false);
                self.me.events.time_out();
            }
            if let Some(began) = &mut self.boosted {
                *began = monotonic();
            }
        }
    }

    /// The thread is about to wait: for an event that comes to it alone, or for a deadline that will probably come,
    /// which the boost is for; or for a thread that wakes it. That one runs on the same pCPU, and would be preempted
    /// by a boosted thread before it has gone to sleep itself.
    fn arm_boost(&mut self, rest: Rest) {
        let until = if rest.dozes { monotonic() } else { rest.until };
        if until == Time::NEVER || !(rest.dozes || self.times_out) {
            self.end_boost();
        } else if self.boosted.is_none()
            && let Some(slot) = self.slot
            && self.shared.rt_boost.arm(slot, until)
        {
            self.boosted = Some(until);
        }
    }

    pub(super) fn end_boost(&mut self) {
        if let (Some(began), Some(slot)) = (self.boosted.take(), self.slot) {
            self.shared.rt_boost.end(slot, began, monotonic());
        }
    }

    /// An event has come: the end of a nap, or a wake that this thread has to make known. Gives the slot it napped on,
    /// and since when it has it back.
    fn seen_to(&mut self, rest: &mut Rest) -> Option<(Slot, Time)> {
        (rest.until, rest.dozes) = (Time::NEVER, false);
        if let Some(slot) = rest.nap.take()
            && self.word(slot).acquire(self.id)
        {
            let now = monotonic();
            self.me.naps.end(now);
            self.me.events.use_up();
            return Some((slot, now));
        }
        self.shared.turn_of(self.id, self.asker, |state, now, acts| {
            if self.shared.unblock(state, self.id, None, now, acts) && self.shared.steals {
                self.shared.steal(state, self.id, now, acts);
            }
        });
        None
    }

    /// Ends the vCPU, which has no slot. False: it has been handed one, on which it will be told that it ends.
    fn leave(&mut self) -> bool {
        let gone = self.shared.turn_of(self.id, self.asker, |state, now, _| {
            if state.entry(self.id).on.is_some() {
                return None;
            }
            state.ledger.remove(self.id, now);
            let (last, gone) = self.shared.forget(state, self.id, now);
            self.last = last;
            gone
        });
        gone.is_some()
    }
}
