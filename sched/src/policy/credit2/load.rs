//! Load: how many vCPUs can run, averaged over the last second.

use crate::time::Time;

/// A load average (unit: 1/262144 of a vCPU that can always run).
pub(super) type Average = u64;

/// One vCPU that can always run. Xen: LOADAVG_PRECISION_SHIFT.
pub(super) const ONE: Average = 1 << 18;
/// Over how long a load is averaged (unit: ns), about a second. Xen: LOADAVG_WINDOW_SHIFT.
const WINDOW: u64 = 1 << 30;

/// The load of a run queue, or that of one vCPU.
///
/// The average moves towards what there is now, by the part of the window that has passed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    average: Average,
    /// vCPUs that can run now.
    runnable: u32,
    /// Averaged up to here.
    at: Time,
}

impl Load {
    /// The load of a run queue without vCPUs.
    pub(super) fn none() -> Self {
        Self { average: 0, runnable: 0, at: Time(0) }
    }

    /// The load of a new vCPU: half, until more is known of it.
    pub(super) fn of_new(now: Time) -> Self {
        Self { average: ONE / 2, runnable: 0, at: now }
    }

    /// The average as of the last update.
    pub(super) fn average(&self) -> Average {
        self.average
    }

    /// When that was.
    pub(super) fn at(&self) -> Time {
        self.at
    }

    pub(super) fn runnable(&self) -> u32 {
        self.runnable
    }

    /// Averages up to now.
    pub(super) fn update(&mut self, now: Time) {
        let passed = i128::from(now.since(self.at).0.min(WINDOW));
        let gap = i128::from(u64::from(self.runnable) * ONE) - i128::from(self.average);
        self.average = (i128::from(self.average) + gap * passed / i128::from(WINDOW)) as Average;
        self.at = self.at.max(now);
    }

    /// A vCPU can run from now on.
    pub(super) fn begin(&mut self, now: Time) {
        self.update(now);
        self.runnable += 1;
    }

    /// A vCPU cannot run any more.
    pub(super) fn end(&mut self, now: Time) {
        self.update(now);
        self.runnable -= 1;
    }

    /// A vCPU of this load comes to the run queue; that it can run is told by [`begin`](Self::begin).
    pub(super) fn join(&mut self, load: Average) {
        self.average += load;
    }

    /// A vCPU of this load leaves the run queue; that it cannot run there any more is told by [`end`](Self::end).
    pub(super) fn leave(&mut self, load: Average) {
        self.average = self.average.saturating_sub(load);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Nanos;

    #[test]
    fn a_load_is_what_there_was_in_the_last_second() {
        let mut load = Load::none();
        load.begin(Time(0));
        load.update(Time(WINDOW / 2));
        assert_eq!(load.average(), ONE / 2);
        load.begin(Time(WINDOW / 2));
        load.update(Time(3 * WINDOW / 2));
        assert_eq!(load.average(), 2 * ONE, "a window later nothing else counts");
        load.end(Time(3 * WINDOW / 2));
        load.end(Time(3 * WINDOW / 2));
        load.update(Time(3 * WINDOW / 2) + Nanos(WINDOW));
        assert_eq!((load.average(), load.runnable()), (0, 0));
    }

    #[test]
    fn a_load_that_moves_is_counted_where_it_went_at_once() {
        let (mut from, mut to) = (Load::none(), Load::none());
        from.join(ONE / 2);
        from.leave(ONE / 2);
        to.join(ONE / 2);
        assert_eq!((from.average(), to.average()), (0, ONE / 2));
        from.leave(ONE);
        assert_eq!(from.average(), 0, "never below nothing");
    }
}
