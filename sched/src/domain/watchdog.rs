//! The watchdog: reports a vCPU that waited for a pCPU longer than the policy promises, what led there, and whether the
//! policy or the host caused it.
//!
//! A thread looks at the waiting vCPUs, four times in the shortest bound. It takes the domain's lock for a stretch of
//! vCPUs at a time, and costs the scheduler's own path nothing: since when a vCPU waits, the ledger knows anyway. The
//! caller that started the watchdog decides what to do about a starved vCPU.
//!
//! A vCPU that has used CPU time beyond its leases may have to wait until that is paid
//! ([`Policy::owes`](crate::policy::Policy::owes)); its bound holds from then on.
//!
//! A bound counts CPU time that others may use first. It knows nothing of switches and kicks, for which there is a
//! margin (`bounds.rs`), nor of what the host takes from the pCPUs, which is found out (`absence.rs`) and not blamed on
//! the policy.

mod absence;
mod bounds;
mod report;

pub use bounds::BoundOf;
pub use report::{Cause, Meanwhile, Starvation};

use super::contract::{Domain, STRETCH};
use super::parker::Parker;
use super::thread_start;
use crate::ids::VcpuId;
use crate::ledger::Seen;
use crate::sync::{AtomicBool, Ordering, thread};
use crate::time::{Nanos, Time, monotonic};
use absence::Absence;
use bounds::Bounds;
use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

/// It never looks more often than this.
const SHORTEST_PERIOD: Nanos = Nanos::from_millis(10);
/// Nor less often, for vCPUs come and bring shorter bounds.
const LONGEST_PERIOD: Nanos = Nanos::from_millis(1_000);
/// Looks in the shortest bound.
const LOOKS: u64 = 4;
/// A vCPU is told of once in this time for the same cause.
const QUIET: Nanos = Nanos::from_millis(60_000);

/// What a watchdog goes by.
pub struct Rules {
    /// How long vCPUs may wait.
    pub bound: BoundOf,
    /// Is told of starved vCPUs, on the watchdog's thread. On `Break` the watchdog ends.
    pub tell: Box<dyn FnMut(Starvation) -> ControlFlow<()> + Send>,
}

/// Watches a domain until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    stop: Arc<Stop>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    parker: Parker,
    asked: AtomicBool,
}

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rules").finish_non_exhaustive()
    }
}

impl Watchdog {
    /// Starts to watch a domain with a policy.
    ///
    /// # Errors
    /// The host gives no thread.
    pub fn start(domain: Arc<dyn Domain>, rules: Rules) -> io::Result<Self> {
        let stop = Arc::new(Stop::default());
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name("watchdog".to_owned()).spawn(move || {
            thread_start::begin();
            let pcpus = domain.trace().map_or(1, |trace| trace.rings().len());
            let absence = Absence::new(pcpus);
            let bounds = Bounds::new(rules.bound);
            let watch = Watch {
                domain,
                bounds,
                tell: rules.tell,
                absence,
                told: HashMap::new(),
                owed: HashMap::new(),
                seen: Vec::new(),
            };
            watch.until(&stopped);
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.asked.store(true, Ordering::Relaxed);
        self.stop.parker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic there was reported by the panic hook; there is nothing left to do about it.
            let _ = thread.join();
        }
    }
}

struct Watch {
    domain: Arc<dyn Domain>,
    bounds: Bounds,
    tell: Box<dyn FnMut(Starvation) -> ControlFlow<()> + Send>,
    absence: Absence,
    /// When a vCPU was reported, and with which cause.
    told: HashMap<VcpuId, (Time, Cause)>,
    /// When a vCPU was last seen to wait for what it owes: its bound holds from then on.
    owed: HashMap<VcpuId, Time>,
    seen: Vec<Seen>,
}

/// A vCPU that waited beyond its bound.
#[derive(Debug, Clone, Copy)]
struct Overdue {
    seen: Seen,
    since: Time,
    bound: Nanos,
    cause: Cause,
}

impl Watch {
    fn until(mut self, stop: &Stop) {
        loop {
            let planned = monotonic() + self.period();
            stop.parker.wait(planned);
            if stop.asked.load(Ordering::Relaxed) || self.look(planned).is_break() {
                return;
            }
        }
    }

    fn period(&self) -> Nanos {
        let shortest = self.bounds.shortest().map_or(LONGEST_PERIOD, |bound| Nanos(bound.0 / LOOKS));
        shortest.clamp(SHORTEST_PERIOD, LONGEST_PERIOD)
    }

    fn look(&mut self, planned: Time) -> ControlFlow<()> {
        let now = monotonic();
        self.absence.sample(&self.domain.threads(), planned, now);
        self.see();
        self.bounds.update(&self.seen, now);
        let seen = &self.seen;
        self.owed.retain(|vcpu, _| seen.iter().any(|seen| seen.vcpu == *vcpu && seen.waits.is_some()));
        self.owed.extend(seen.iter().filter(|seen| seen.owes && seen.waits.is_some()).map(|seen| (seen.vcpu, now)));
        self.told.retain(|_, (told, _)| now.since(*told) < QUIET);
        let mut overdue: Vec<Overdue> = self.seen.iter().filter_map(|seen| self.judge(*seen, now)).collect();
        // That the host was excused is no reason to keep quiet of the scheduler.
        let known = |late: &Overdue, told: Cause| told == Cause::Scheduler || told == late.cause;
        overdue.retain(|late| self.told.get(&late.seen.vcpu).is_none_or(|(_, told)| !known(late, *told)));
        // vCPUs that the policy starves before those that the host starves, then the longest wait first.
        overdue.sort_unstable_by_key(|late| (late.cause != Cause::Scheduler, late.since));
        let Some((worst, others)) = overdue.split_first() else { return ControlFlow::Continue(()) };
        self.told.extend(overdue.iter().map(|late| (late.seen.vcpu, (now, late.cause))));
        let starvation = self.starvation(*worst, others, now);
        (self.tell)(starvation)
    }

    /// All vCPUs, a stretch at a time.
    fn see(&mut self) {
        self.seen.clear();
        let mut from = Some(VcpuId(0));
        while let Some(next) = from {
            // What the domain's lock is held for should not be allocation.
            self.seen.reserve(STRETCH);
            from = self.domain.look(next, &mut self.seen);
        }
    }

    fn judge(&self, seen: Seen, now: Time) -> Option<Overdue> {
        let since = seen.waits?.max(self.owed.get(&seen.vcpu).copied().unwrap_or_default());
        let bound = self.bounds.of(seen.attributes, now)?;
        let cause = bounds::judge(now.since(since), bound, self.absence.since(since))?;
        Some(Overdue { seen, since, bound, cause })
    }

    fn starvation(&self, worst: Overdue, others: &[Overdue], now: Time) -> Starvation {
        let Overdue { seen, since, bound, cause } = worst;
        let meanwhile = self.domain.trace().map(|trace| report::meanwhile(&trace, seen.vcpu, since, now));
        Starvation {
            vcpu: seen.vcpu,
            attributes: seen.attributes,
            waited: now.since(since),
            bound,
            cause,
            away: self.absence.since(since),
            others: others.iter().map(|late| (late.seen.vcpu, now.since(late.since))).collect(),
            at: now,
            meanwhile: meanwhile.unwrap_or_default(),
        }
    }
}
