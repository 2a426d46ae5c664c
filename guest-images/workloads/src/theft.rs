//! Thieves: vCPUs that try to get more CPU time than their share by the moments at which they stop.
//!
//! One operation is a hog's [`STEP_NS`] of work, so that a thief's work compares with a hog's. `strategy` says at which
//! moments a thief stops:
//!
//! * `tick`: just before each multiple of `tick_us` on the clock. It sleeps across that moment, to be absent when run
//!   time is sampled. This is the theft of service of arXiv 1103.0759.
//! * `slice`: `slice_us` after it woke. It sleeps, to leave before its quota ends and to come back with a new one.
//! * `boost`: every `burst_us`. It sleeps, to run first each time it wakes, as sleepers do.
//! * `yields`: every `burst_us`. It yields without a hint, to get back what it had not used, or not to be charged for
//!   it.
//!
//! A sleep takes `rest_us`. A thief that wakes late has slept longer than it wanted to, which is a loss that it cannot
//! avoid.

use crate::hog::STEP_NS;
use crate::params::{Params, refuse};
use stile_rt::abi::Hint;
use stile_rt::clock::{self, Ticks};
use stile_rt::work::Work;
use stile_rt::{Cpu, doorbell};

/// How a thief picks the moments at which it stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    /// Absent at each multiple of this span.
    Tick(Ticks),
    /// Asleep once this span has passed since the wake.
    Nap(Ticks),
    /// Yields once this span has passed since the last yield.
    Yields(Ticks),
}

/// Every vCPU is a thief.
pub fn main(cpu: Cpu) -> u32 {
    run(cpu, &Params::of(cpu))
}

/// One thief.
pub fn run(cpu: Cpu, params: &Params) -> ! {
    let span = |key, default_us| params.clock.ticks(params.number(key, default_us) * 1000);
    let strategy = match params.text("strategy") {
        None | Some("tick") => Strategy::Tick(span("tick_us", 10_000)),
        Some("slice") => Strategy::Nap(span("slice_us", 5_500)),
        Some("boost") => Strategy::Nap(span("burst_us", 200)),
        Some("yields") => Strategy::Yields(span("burst_us", 200)),
        Some(other) => refuse(cpu, format_args!("strategy={other} is none of tick, slice, boost and yields")),
    };
    let rest = span("rest_us", 100);
    let step = params.work(STEP_NS);
    loop {
        match strategy {
            Strategy::Tick(period) => {
                let (stop, wake) = absence(clock::now(), period, rest);
                work_until(stop, step, cpu);
                sleep_until(wake, cpu);
            }
            Strategy::Nap(span) => {
                work_until(clock::now() + span, step, cpu);
                sleep_until(clock::now() + rest, cpu);
            }
            Strategy::Yields(span) => {
                work_until(clock::now() + span, step, cpu);
                doorbell::yield_now(Hint::UNKNOWN);
            }
        }
    }
}

/// When a thief stops and when it wakes, to sleep for `rest` with the next multiple of `period` in the middle.
fn absence(now: Ticks, period: Ticks, rest: Ticks) -> (Ticks, Ticks) {
    let half = rest.0 / 2;
    let tick = ((now.0 + half) / period.0.max(1) + 1) * period.0.max(1);
    (Ticks(tick - half.min(tick)), Ticks(tick) + Ticks(half))
}

/// Works, by whole steps, up to this time.
fn work_until(stop: Ticks, step: Work, cpu: Cpu) {
    while clock::now() < stop {
        step.run(cpu);
        cpu.op_done();
    }
}

/// Sleeps until this time.
fn sleep_until(wake: Ticks, cpu: Cpu) {
    while clock::now() < wake {
        doorbell::idle(cpu, Some(wake));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thief_is_absent_around_every_tick_and_present_between() {
        let of = |now| absence(Ticks(now), Ticks(1000), Ticks(100));
        assert_eq!(of(0), (Ticks(950), Ticks(1050)));
        assert_eq!(of(949), (Ticks(950), Ticks(1050)));
        // Awake again, or so late that this tick is over: the next one counts.
        assert_eq!(of(1050), (Ticks(1950), Ticks(2050)));
        assert_eq!(of(960), (Ticks(1950), Ticks(2050)));
    }

    #[test]
    fn a_tick_of_no_length_does_not_divide_by_zero() {
        let (stop, wake) = absence(Ticks(5), Ticks(0), Ticks(0));
        assert!(stop <= wake);
    }
}
