//! The sleeping vCPUs that have not been passed yet.
//!
//! A vCPU that sleeps keeps its stair until the served stair is more than [`LAG`] past it. Until then it may come back
//! and use what it has left there, so quotas are as short as if it were runnable: otherwise vCPUs that sleep in turn
//! would each run a long quota before one that waits.

use super::limits::LAG;
use super::matrix::Stair;
use crate::policy::queue::WINDOW;

/// How many sleep, by stair modulo the queue's window.
#[derive(Debug)]
pub(super) struct Sleepers {
    on: Box<[u32; WINDOW as usize]>,
    /// None is counted below.
    lowest: Stair,
    count: usize,
}

impl Sleepers {
    pub(super) fn new(served: Stair) -> Self {
        Self { on: Box::new([0; WINDOW as usize]), lowest: served - LAG, count: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// A vCPU falls asleep on this stair. Returns the one on which it is counted: the last of the window, if it stands
    /// further down.
    pub(super) fn enter(&mut self, stair: Stair) -> Stair {
        let stair = stair.min(self.lowest + WINDOW - 1);
        if stair >= self.lowest {
            self.on[(stair % WINDOW) as usize] += 1;
            self.count += 1;
        }
        stair
    }

    /// A vCPU that was counted on this stair no longer sleeps.
    pub(super) fn leave(&mut self, stair: Stair) {
        if stair >= self.lowest {
            self.on[(stair % WINDOW) as usize] -= 1;
            self.count -= 1;
        }
    }

    /// The served stair moves on, and passes those that are counted above this one.
    pub(super) fn pass(&mut self, lowest: Stair) {
        for stair in self.lowest..lowest.min(self.lowest + WINDOW) {
            self.count -= std::mem::take(&mut self.on[(stair % WINDOW) as usize]) as usize;
        }
        self.lowest = self.lowest.max(lowest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_counts_until_it_wakes_or_is_passed() {
        let mut sleepers = Sleepers::new(LAG);
        assert_eq!([0, 1, 2 * WINDOW].map(|stair| sleepers.enter(stair)), [0, 1, WINDOW - 1]);
        assert_eq!(sleepers.count(), 3);
        sleepers.pass(1);
        assert_eq!(sleepers.count(), 2);
        let passed = sleepers.enter(0);
        sleepers.leave(passed);
        sleepers.leave(1);
        assert_eq!(sleepers.count(), 1);
        sleepers.pass(WINDOW);
        assert_eq!(sleepers.count(), 0);
        sleepers.enter(WINDOW);
        sleepers.pass(1 << 40);
        assert_eq!((sleepers.count(), sleepers.enter(0)), (0, 0));
        assert_eq!((sleepers.enter(1 << 40), sleepers.count()), (1 << 40, 1));
    }
}
