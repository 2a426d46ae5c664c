//! The lock of a domain that asks a policy, and what the domain tells from the ledger under it.

use super::contract::STRETCH;
use super::counts::Tally;
use crate::histogram::Histogram;
use crate::ids::VcpuId;
use crate::ledger::{Ledger, Seen, Totals, Trace};
use crate::lock::{Caller, LockRules, QueueGuard, QueueLock};
use std::sync::Arc;

/// What the lock guards, with a ledger in it.
pub(super) trait HasLedger {
    fn ledger(&self) -> &Ledger;

    fn ledger_mut(&mut self) -> &mut Ledger;
}

/// The lock is held.
pub(super) type LedgerGuard<'a, S> = QueueGuard<'a, S>;

/// The lock, and the trace, which is read without it.
pub(super) struct LedgerLock<S> {
    state: QueueLock<S>,
    trace: Arc<Trace>,
}

impl<S: HasLedger> LedgerLock<S> {
    pub(super) fn new(state: S, rules: LockRules) -> Self {
        let trace = state.ledger().trace();
        Self { state: QueueLock::new(state, rules), trace }
    }

    /// Waits for the lock.
    pub(super) fn lock(&self) -> QueueGuard<'_, S> {
        self.state.lock()
    }

    /// Waits for the lock, as a thread of this class.
    pub(super) fn lock_as(&self, caller: Caller) -> QueueGuard<'_, S> {
        self.state.lock_as(caller)
    }

    /// As [`Domain::kicks`](super::Domain::kicks).
    pub(super) fn kicks(&self) -> Histogram {
        self.lock().ledger().counts().kicks.clone()
    }

    /// As [`Domain::trace`](super::Domain::trace).
    pub(super) fn trace(&self) -> Arc<Trace> {
        Arc::clone(&self.trace)
    }

    /// As [`Domain::look`](super::Domain::look).
    pub(super) fn look(&self, from: VcpuId, seen: &mut Vec<Seen>) -> Option<VcpuId> {
        self.lock().ledger().look(from, STRETCH, seen)
    }

    /// As [`Domain::placed`](super::Domain::placed).
    pub(super) fn placed(&self) -> Vec<Option<VcpuId>> {
        self.lock().ledger().placed().collect()
    }

    /// As [`Domain::totals`](super::Domain::totals), with the sum of what the domain's threads have counted.
    pub(super) fn totals(&self, counted: impl FnOnce(&S) -> Tally) -> Totals {
        let state = self.lock();
        let ledger = state.ledger();
        counted(&state).totals(ledger.counts(), ledger.yield_counts())
    }
}
