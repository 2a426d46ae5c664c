//! The real-time boost: a thread whose deadline comes runs at once, in the host's real-time class, to ask for a slot.
//!
//! A thread that will wake by itself enters SCHED_FIFO at the lowest priority before it waits. It leaves the class
//! before it runs its vCPU or waits for something else. While it sleeps, that takes no CPU time. Awake, it only takes
//! the lock, asks and takes up the answer: some 10 us. So no guest ever runs in the class; nor does one whose vCPU
//! dozes (`thread/doze.rs`).
//!
//! Boosts are charged to a budget of each pCPU, a twentieth of its time, so that the kernel's own limit on the class
//! (95 % of a second) is never near. Once the budget is used up, the thread waits as an ordinary one: same questions,
//! same answers. So it does where the host does not permit the class, which is tried once per domain.
#![allow(unsafe_code, reason = "sched_setscheduler: rustix has it not")]

use crate::ids::Slot;
use crate::sync::{AtomicU64, Ordering, thread};
use crate::time::{Nanos, Time};

/// Lowest real-time priority: enough to run before every ordinary thread.
const LOWEST: i32 = 1;
/// Span in which a budget is used up (no config key: it only has to be shorter than the kernel's own, a second).
const PERIOD: Nanos = Nanos::from_millis(100);
/// Boosted time of a pCPU in that span.
const BUDGET: Nanos = Nanos::from_millis(5);

/// The boosts of a domain.
#[derive(Debug)]
pub(super) struct RtBoost {
    permitted: bool,
    used: Box<[Used]>,
}

/// What boosts have used of a pCPU: the number of the period in the upper half, nanoseconds in the lower.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Used(AtomicU64);

impl RtBoost {
    /// For this many pCPUs, if wanted and permitted: tried on a thread made for it.
    pub(super) fn new(slots: usize, wanted: bool) -> Self {
        let tried = || thread::spawn(|| set_class(libc::SCHED_FIFO, LOWEST) && set_class(libc::SCHED_OTHER, 0)).join();
        Self { permitted: wanted && matches!(tried(), Ok(true)), used: (0..slots).map(|_| Used::default()).collect() }
    }

    /// The calling thread, bound to this slot's pCPU, is about to wait for a deadline. True: it enters the class.
    pub(super) fn arm(&self, slot: Slot, until: Time) -> bool {
        self.permitted && self.used[slot.index()].has_left(until) && set_class(libc::SCHED_FIFO, LOWEST)
    }

    /// The thread, which woke at this time, leaves the class.
    pub(super) fn end(&self, slot: Slot, began: Time, now: Time) {
        set_class(libc::SCHED_OTHER, 0);
        self.used[slot.index()].charge(now, now.since(began));
    }
}

impl Used {
    fn has_left(&self, at: Time) -> bool {
        let used = self.0.load(Ordering::Relaxed);
        used >> 32 != period(at) || used & u64::from(u32::MAX) < BUDGET.0
    }

    /// Two boosts that end on one pCPU at once may count as one: it is one CPU, so they cannot both have run.
    fn charge(&self, now: Time, boosted: Nanos) {
        let used = self.0.load(Ordering::Relaxed);
        let before = if used >> 32 == period(now) { used & u64::from(u32::MAX) } else { 0 };
        let sum = (before + boosted.0).min(u32::MAX.into());
        self.0.store(period(now) << 32 | sum, Ordering::Relaxed);
    }
}

/// The number of the period, modulo 2^32.
fn period(at: Time) -> u64 {
    (at.0 / PERIOD.0) & u64::from(u32::MAX)
}

/// Puts the calling thread into a scheduling class.
fn set_class(class: i32, priority: i32) -> bool {
    // A model's threads are all one thread of the host.
    if cfg!(all(test, shuttle)) {
        return true;
    }
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: the parameters are initialised and outlive the call, which only reads them; 0 is the calling thread.
    unsafe { libc::sched_setscheduler(0, class, &parameters) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_used_up_within_its_period_and_new_in_the_next() {
        let used = Used::default();
        let at = |ms: u64| Time(ms * 1_000_000);
        assert!(used.has_left(at(10)));
        used.charge(at(10), Nanos::from_millis(3));
        assert!(used.has_left(at(20)));
        used.charge(at(20), Nanos::from_millis(3));
        assert!(!used.has_left(at(99)));
        assert!(used.has_left(at(100)));
        used.charge(at(150), Nanos::from_millis(1));
        assert!(used.has_left(at(199)), "the old period does not count");
        used.charge(at(199), Nanos(u64::from(u32::MAX)));
        assert!(!used.has_left(at(199)) && used.has_left(at(200)));
    }

    #[test]
    fn a_domain_that_wants_no_boost_has_none() {
        assert!(!RtBoost::new(1, false).arm(Slot(0), Time(0)));
    }
}
