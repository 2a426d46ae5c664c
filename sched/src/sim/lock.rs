//! The one lock under which executors ask: an executor that comes while it is held waits, first come first served.
//!
//! What a waiter does meanwhile, spin or sleep, and the lock's ways of passing by sleepers are not modelled: they are
//! within the length of a section, as it is measured.

use crate::time::{Nanos, Time};

/// The lock.
#[derive(Debug)]
pub(super) struct Lock {
    free: Time,
    section: Nanos,
}

impl Lock {
    /// A free lock that is held for so long each time. If that is no time at all, no executor ever waits.
    pub(super) fn new(section: Nanos) -> Self {
        Self { free: Time(0), section }
    }

    /// An executor comes now: when it has the lock. It leaves it a [section](Self::section) later.
    pub(super) fn enter(&mut self, now: Time) -> Time {
        let has = self.free.max(now);
        self.free = has + self.section;
        has
    }

    pub(super) fn section(&self) -> Nanos {
        self.section
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_while_it_is_held_has_it_when_all_before_have_left() {
        let mut lock = Lock::new(Nanos(10));
        let has = [100, 101, 102, 150].map(|now| lock.enter(Time(now)).0);
        assert_eq!(has, [100, 110, 120, 150]);
    }

    #[test]
    fn nobody_waits_for_a_lock_that_is_never_held() {
        let mut lock = Lock::new(Nanos::ZERO);
        assert_eq!([lock.enter(Time(5)), lock.enter(Time(5))], [Time(5); 2]);
    }
}
