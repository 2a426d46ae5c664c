//! The timer of a local APIC.
//!
//! SDM, sections "APIC Timer" and "TSC-Deadline Mode". The timer's input clock ticks once in a nanosecond. Times are
//! points of the host's monotonic clock. A TSC deadline is converted to such a point when it is written, so that later
//! calls need no TSC.

use crate::vm::clock::TscClock;
use stile_sched::{Nanos, Time};

/// The shortest time between two interrupts of a periodic timer. Each costs the host work, whatever the guest does.
/// KVM's own limit is the same (`min_timer_period_us`).
const SHORTEST_PERIOD: Nanos = Nanos::from_micros(200);

/// The present, by both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The host's monotonic clock.
    pub time: Time,
    /// The guest's TSC.
    pub tsc: u64,
}

/// Timer modes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Counts down once.
    OneShot,
    /// Counts down again and again.
    Periodic,
    /// Waits until the TSC reaches a value.
    TscDeadline,
}

/// The timer, without its entry in the local vector table.
#[derive(Debug, Clone)]
pub struct Timer {
    clock: TscClock,
    mode: Mode,
    initial: u32,
    /// The divide configuration register.
    divide: u32,
    /// The TSC deadline register.
    tsc: u64,
    /// When it fires.
    fires: Option<Time>,
}

impl Timer {
    /// A timer as after a reset, which does not run.
    pub fn new(clock: TscClock) -> Self {
        Self { clock, mode: Mode::OneShot, initial: 0, divide: 0, tsc: 0, fires: None }
    }

    /// The mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Sets the mode. A change to or from [`Mode::TscDeadline`] stops the timer.
    pub fn set_mode(&mut self, mode: Mode) {
        if (self.mode == Mode::TscDeadline) != (mode == Mode::TscDeadline) {
            (self.initial, self.tsc, self.fires) = (0, 0, None);
        }
        self.mode = mode;
    }

    /// The initial count.
    pub fn initial(&self) -> u32 {
        self.initial
    }

    /// Starts counting down from `count`; 0 stops the timer. Ignored in [`Mode::TscDeadline`].
    pub fn set_initial(&mut self, count: u32, now: Now) {
        if self.mode != Mode::TscDeadline {
            self.initial = count;
            self.fires = (count != 0).then(|| now.time + self.stretched(count));
        }
    }

    /// The current count.
    pub fn current(&self, now: Now) -> u32 {
        match self.fires {
            Some(fires) if self.mode != Mode::TscDeadline => {
                // A period that is longer than the guest asked for does not show.
                (fires.since(now.time).0 >> self.shift()).min(self.initial.into()) as u32
            }
            _ => 0,
        }
    }

    /// The divide configuration.
    pub fn divide(&self) -> u32 {
        self.divide
    }

    /// Sets the divide configuration. A running timer goes on from its current count.
    pub fn set_divide(&mut self, divide: u32, now: Now) {
        let count = self.current(now);
        self.divide = divide;
        if self.fires.is_some() && self.mode != Mode::TscDeadline {
            self.fires = Some(now.time + self.stretched(count));
        }
    }

    /// The TSC deadline; 0 if there is none, or in another mode.
    pub fn tsc(&self) -> u64 {
        self.tsc
    }

    /// Fires when the TSC reaches `tsc`, at once if it has; 0 stops the timer. Ignored in other modes.
    pub fn set_tsc(&mut self, tsc: u64, now: Now) {
        if self.mode == Mode::TscDeadline {
            self.tsc = tsc;
            self.fires = (tsc != 0).then(|| self.clock.time_from(tsc, now.tsc, now.time));
        }
    }

    /// When it fires next.
    pub fn next(&self) -> Option<Time> {
        self.fires
    }

    /// Whether it has fired by now. Periods that have passed meanwhile count as one.
    pub fn fire(&mut self, now: Time) -> bool {
        let Some(fired) = self.fires.filter(|fires| *fires <= now) else { return false };
        self.tsc = 0;
        self.fires = (self.mode == Mode::Periodic && self.initial != 0).then(|| {
            let period = self.stretched(self.initial).max(SHORTEST_PERIOD);
            fired + Nanos(period.0 * (now.since(fired).0 / period.0 + 1))
        });
        true
    }

    /// The time that a count stands for.
    fn stretched(&self, count: u32) -> Nanos {
        Nanos(u64::from(count) << self.shift())
    }

    /// The logarithm of the divisor: bits 0, 1 and 3 of the register, plus one; 7 divides by 1.
    fn shift(&self) -> u32 {
        ((self.divide & 3) | (self.divide >> 1 & 4)).wrapping_add(1) & 7
    }
}
