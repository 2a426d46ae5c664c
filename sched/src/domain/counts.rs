//! What a thread counts of the vCPUs it runs: exits, and yields that no policy is told of.

use crate::ledger::{self, Account, Outcomes, Totals, Yields};
use crate::policy::YieldCounts;
use crate::wait::Wait;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters that one thread writes and any may read.
#[derive(Debug, Default)]
pub(super) struct Counts {
    exits: AtomicU64,
    unknown: AtomicU64,
    lock: AtomicU64,
    message: AtomicU64,
}

/// What such counters said at some time, or a sum of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    exits: u64,
    unknown: u64,
    lock: u64,
    message: u64,
}

impl Counts {
    /// By the thread that writes, as is [`yielded`](Self::yielded).
    pub(super) fn exit(&self) {
        count(&self.exits);
    }

    pub(super) fn yielded(&self, wait: Wait) {
        count(match wait {
            Wait::Unknown | Wait::Spin => &self.unknown,
            Wait::Lock(_) => &self.lock,
            Wait::Message(_) => &self.message,
        });
    }

    pub(super) fn read(&self) -> Tally {
        Tally {
            exits: self.exits.load(Relaxed),
            unknown: self.unknown.load(Relaxed),
            lock: self.lock.load(Relaxed),
            message: self.message.load(Relaxed),
        }
    }

    /// Another vCPU is counted from now on.
    pub(super) fn clear(&self) {
        for counter in [&self.exits, &self.unknown, &self.lock, &self.message] {
            counter.store(0, Relaxed);
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

impl Tally {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            exits: self.exits + other.exits,
            unknown: self.unknown + other.unknown,
            lock: self.lock + other.lock,
            message: self.message + other.message,
        }
    }

    /// What was counted since an earlier reading of the same counters.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            exits: self.exits - earlier.exits,
            unknown: self.unknown - earlier.unknown,
            lock: self.lock - earlier.lock,
            message: self.message - earlier.message,
        }
    }

    /// Puts it into the account of the vCPU it is of, whose yields came to this.
    pub(super) fn enter(self, account: &mut Account, outcome: fn(&mut Outcomes) -> &mut u64) {
        account.exits = self.exits;
        *outcome(&mut account.yields.unknown) = self.unknown;
        *outcome(&mut account.yields.lock) = self.lock;
        *outcome(&mut account.yields.message) = self.message;
    }

    /// The counts of a domain whose policy is told of all but lone yields, of which this is the sum.
    pub(super) fn totals(self, counts: &ledger::Counts, told: Option<YieldCounts>) -> Totals {
        let (asked, all) = (counts.yields, counts.yields.outcomes());
        let yields = Yields {
            unknown: self.unknown + asked.unknown.total(),
            lock: self.lock + asked.lock.total(),
            message: self.message + asked.message.total(),
            alone: self.unknown + self.lock + self.message,
            switched: all.switched,
            stayed: all.stayed,
        };
        Totals { exits: self.exits, switches: counts.switches, migrations: counts.migrations, yields, told }
    }

    /// The counts of a domain without a policy.
    pub(super) fn totals_untold(self) -> Totals {
        let Self { exits, unknown, lock, message } = self;
        Totals { exits, yields: Yields { unknown, lock, message, ..Yields::default() }, ..Totals::default() }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::ids::VcpuId;

    #[test]
    fn what_two_vcpus_did_on_one_thread_is_told_apart_and_adds_up() {
        let counts = Counts::default();
        counts.exit();
        counts.yielded(Wait::Unknown);
        let first = counts.read();
        counts.exit();
        counts.exit();
        counts.yielded(Wait::Lock(VcpuId(1)));
        let second = counts.read().since(first);
        assert_eq!(second, Tally { exits: 2, lock: 1, ..Tally::default() });
        assert_eq!(first.plus(second), counts.read());
    }

    #[test]
    fn lone_yields_and_those_the_policy_was_told_of_are_all() {
        let mut of_policy = ledger::Counts::default();
        of_policy.yields.lock = Outcomes { switched: 3, stayed: 1, ..Outcomes::default() };
        let told = Some(YieldCounts { sole: 5, ..YieldCounts::default() });
        let totals = Tally { exits: 9, lock: 2, message: 1, ..Tally::default() }.totals(&of_policy, told);
        assert_eq!((totals.exits, totals.yields.total()), (9, 7));
        assert_eq!((totals.yields.alone, totals.yields.switched, totals.yields.stayed), (3, 3, 1));
        assert_eq!(totals.told, told);
    }
}
