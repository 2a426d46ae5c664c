//! What became of a vCPU's time, and how often what happened to it.

use crate::domain::Attributes;
use crate::histogram::Histogram;
use crate::{Nanos, Time, Wait};

/// What a vCPU is doing, as far as its policy knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Blocked.
    Idle,
    /// Runnable, without a slot.
    Waiting,
    /// On a slot.
    Running,
}

/// A vCPU's account. Its three times add up to the time since it was taken in.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// On a slot.
    pub run: Nanos,
    /// Runnable without a slot: what a hypervisor calls steal, or CPU ready.
    pub wait: Nanos,
    /// Blocked, waiting for an event.
    pub idle: Nanos,
    /// How long it waited each time.
    pub waits: Histogram,
    /// Times it was put on a slot.
    pub turns: u64,
    /// Times that this was another slot than the last.
    pub migrations: u64,
    /// Slots that it took from a vCPU which had been handed them and had not begun.
    pub steals: u64,
    /// Its yields while others waited.
    pub yields: Yielded,
    /// Run beyond the end of a lease.
    pub overrun: Nanos,
    /// Run by others on leases that this one passed on by a yield.
    pub lent: Nanos,
    /// Run on leases that others passed on.
    pub borrowed: Nanos,
}

/// Yields that were put to the policy: by what they said, and what came of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Yielded {
    /// Said nothing.
    pub unknown: Outcomes,
    /// Named a lock's holder.
    pub lock: Outcomes,
    /// Named a message's sender.
    pub message: Outcomes,
}

/// What came of yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcomes {
    /// Another vCPU got the pCPU.
    pub switched: u64,
    /// The vCPU went on.
    pub stayed: u64,
}

impl Yielded {
    pub(super) fn count(&mut self, wait: Wait, stayed: bool) {
        let outcomes = match wait {
            Wait::Unknown => &mut self.unknown,
            Wait::Lock(_) => &mut self.lock,
            Wait::Message(_) => &mut self.message,
        };
        *if stayed { &mut outcomes.stayed } else { &mut outcomes.switched } += 1;
    }

    fn merge(&mut self, other: &Self) {
        let pairs =
            [(&mut self.unknown, other.unknown), (&mut self.lock, other.lock), (&mut self.message, other.message)];
        for (mine, theirs) in pairs {
            mine.switched += theirs.switched;
            mine.stayed += theirs.stayed;
        }
    }

    /// All that ended this way or that.
    pub fn outcomes(&self) -> Outcomes {
        let all = [self.unknown, self.lock, self.message];
        Outcomes { switched: all.iter().map(|o| o.switched).sum(), stayed: all.iter().map(|o| o.stayed).sum() }
    }
}

impl Account {
    /// All of its time.
    pub fn total(&self) -> Nanos {
        self.run + self.wait + self.idle
    }

    /// Adds another vCPU's account.
    pub fn merge(&mut self, other: &Self) {
        self.run += other.run;
        self.wait += other.wait;
        self.idle += other.idle;
        self.waits.merge(&other.waits);
        self.turns += other.turns;
        self.migrations += other.migrations;
        self.steals += other.steals;
        self.yields.merge(&other.yields);
        self.overrun += other.overrun;
        self.lent += other.lent;
        self.borrowed += other.borrowed;
    }
}

/// A vCPU in the ledger.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) attributes: Attributes,
    pub(super) account: Account,
    pub(super) state: State,
    /// Since when it is in that state and its time is not accounted.
    pub(super) since: Time,
    pub(super) last: Option<crate::Slot>,
}

impl Entry {
    pub(super) fn new(attributes: Attributes, now: Time) -> Self {
        Self { attributes, account: Account::default(), state: State::Idle, since: now, last: None }
    }

    /// Accounts its time up to now, and gives what was not yet.
    pub(super) fn settle(&mut self, now: Time) -> Nanos {
        let span = now.since(self.since);
        *match self.state {
            State::Idle => &mut self.account.idle,
            State::Waiting => &mut self.account.wait,
            State::Running => &mut self.account.run,
        } += span;
        self.since = now;
        span
    }

    /// It does something else from now on.
    pub(super) fn enter(&mut self, state: State, now: Time) {
        self.settle(now);
        self.state = state;
    }
}
