//! What became of a vCPU's time, and how often what happened to it.

use crate::attributes::Attributes;
use crate::histogram::Histogram;
use crate::time::{Nanos, Time};
use crate::wait::Wait;

/// What a vCPU is doing, as far as its policy knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Blocked.
    Idle,
    /// Runnable, without a slot.
    Waiting,
    /// It is on a slot.
    Running,
    /// It has ended, and its account is to be taken.
    Ended,
}

/// A vCPU's account. `run`, `wait`, `idle` and `taken` add up to the time since it was taken in.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Time on a slot, without what was taken.
    pub run: Nanos,
    /// Runnable without a slot: what a hypervisor calls steal, or CPU ready.
    pub wait: Nanos,
    /// The part of `wait` for which its group's cap held it back.
    pub throttled: Nanos,
    /// Blocked, waiting for an event.
    pub idle: Nanos,
    /// Time on a slot in which the host gave its thread no CPU, as far as it was noticed.
    pub taken: Nanos,
    /// How long it waited each time.
    pub waits: Histogram,
    /// Exits to the monitor. The driver counts them, and the yields that the policy is not told of; a ledger has none
    /// of these.
    pub exits: u64,
    /// Times it was put on a slot.
    pub turns: u64,
    /// Times that this was another slot than the last.
    pub migrations: u64,
    /// Slots that it took from a vCPU which had been handed them and had not begun.
    pub steals: u64,
    /// Its yields.
    pub yields: Yielded,
    /// CPU time that threads which serve its VM's devices used for it, beside `run`.
    pub devices: Nanos,
    /// Run beyond the end of a lease.
    pub overrun: Nanos,
    /// Run by others on leases that this one passed on by a yield.
    pub lent: Nanos,
    /// Run on leases that others passed on.
    pub borrowed: Nanos,
}

/// Yields by what they said, and what came of them.
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
    /// No vCPU waited, so it changed nothing.
    pub alone: u64,
    /// Another vCPU got the pCPU.
    pub switched: u64,
    /// The vCPU went on although others waited.
    pub stayed: u64,
    /// There is no policy, and the host does not tell.
    pub untold: u64,
}

impl Outcomes {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.alone + self.switched + self.stayed + self.untold
    }

    /// Of two, each with each.
    fn with(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            alone: of(self.alone, other.alone),
            switched: of(self.switched, other.switched),
            stayed: of(self.stayed, other.stayed),
            untold: of(self.untold, other.untold),
        }
    }
}

impl Yielded {
    pub(super) fn count(&mut self, wait: Wait, stayed: bool) {
        let outcomes = match wait {
            Wait::Unknown | Wait::Spin => &mut self.unknown,
            Wait::Lock(_) => &mut self.lock,
            Wait::Message(_) => &mut self.message,
        };
        *if stayed { &mut outcomes.stayed } else { &mut outcomes.switched } += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        *self = self.with(other, |a, b| a + b);
    }

    fn with(&self, other: &Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            unknown: self.unknown.with(other.unknown, of),
            lock: self.lock.with(other.lock, of),
            message: self.message.with(other.message, of),
        }
    }

    /// What came of them, whatever they said.
    pub fn outcomes(&self) -> Outcomes {
        [self.lock, self.message].into_iter().fold(self.unknown, |sum, of| sum.with(of, |a, b| a + b))
    }
}

impl Account {
    /// All of its time.
    pub fn total(&self) -> Nanos {
        self.run + self.wait + self.idle + self.taken
    }

    /// Adds another vCPU's account.
    pub fn merge(&mut self, other: &Self) {
        self.run += other.run;
        self.wait += other.wait;
        self.throttled += other.throttled;
        self.idle += other.idle;
        self.taken += other.taken;
        self.waits.merge(&other.waits);
        self.exits += other.exits;
        self.turns += other.turns;
        self.migrations += other.migrations;
        self.steals += other.steals;
        self.yields = self.yields.with(&other.yields, |a, b| a + b);
        self.devices += other.devices;
        self.overrun += other.overrun;
        self.lent += other.lent;
        self.borrowed += other.borrowed;
    }

    /// What came since an earlier reading of the same vCPU's, or the same vCPUs', account. That may have counted as run
    /// what turned out to be taken; it is left out.
    pub fn since(&self, earlier: &Self) -> Self {
        let back = earlier.run - self.run;
        Self {
            run: self.run - earlier.run,
            wait: self.wait - earlier.wait,
            throttled: self.throttled - earlier.throttled,
            idle: self.idle - earlier.idle,
            taken: self.taken - earlier.taken - back,
            waits: self.waits.since(&earlier.waits),
            exits: self.exits.saturating_sub(earlier.exits),
            turns: self.turns.saturating_sub(earlier.turns),
            migrations: self.migrations.saturating_sub(earlier.migrations),
            steals: self.steals.saturating_sub(earlier.steals),
            yields: self.yields.with(&earlier.yields, u64::saturating_sub),
            devices: self.devices - earlier.devices,
            overrun: self.overrun - earlier.overrun,
            lent: self.lent - earlier.lent,
            borrowed: self.borrowed - earlier.borrowed,
        }
    }

    /// The greater of each figure of this reading and an earlier one of the same account. So figures never go back,
    /// although an earlier reading may have counted as run what turned out to be taken.
    pub fn at_least(&self, earlier: &Self) -> Self {
        let waits = if self.waits.count() < earlier.waits.count() { &earlier.waits } else { &self.waits };
        Self {
            run: self.run.max(earlier.run),
            wait: self.wait.max(earlier.wait),
            throttled: self.throttled.max(earlier.throttled),
            idle: self.idle.max(earlier.idle),
            taken: self.taken.max(earlier.taken),
            waits: waits.clone(),
            exits: self.exits.max(earlier.exits),
            turns: self.turns.max(earlier.turns),
            migrations: self.migrations.max(earlier.migrations),
            steals: self.steals.max(earlier.steals),
            yields: self.yields.with(&earlier.yields, u64::max),
            devices: self.devices.max(earlier.devices),
            overrun: self.overrun.max(earlier.overrun),
            lent: self.lent.max(earlier.lent),
            borrowed: self.borrowed.max(earlier.borrowed),
        }
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
    pub(super) last: Option<crate::ids::Slot>,
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
            State::Ended => return Nanos::ZERO,
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
