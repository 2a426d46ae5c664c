//! What the host takes from a thread that runs vCPUs: time in which the thread could run and had no CPU.
//!
//! The clock of time goes on then, and the thread's CPU clock does not. Reading the latter is a system call, so it is
//! read only when a vCPU has run for a while ([`NOTICED`]); what the host takes from shorter turns is not noticed.
//! Time for which the thread slept by itself inside a vCPU's exit, as for a device's I/O, is not taken: the kernel
//! tells how long a thread was kept waiting (`/proc/thread-self/schedstat`, Documentation/scheduler/sched-stats.rst).
//! Without that file nothing is noticed.

use crate::policy::Lease;
use crate::time::{Nanos, Time, thread_cpu_time};

/// The least that is noticed, and the shortest turn that is looked at.
pub(super) const NOTICED: Nanos = Nanos::from_millis(1);
/// Sleeps after which the clock is read anew: each hides the few microseconds of CPU time that it takes itself.
const SLEEPS: u32 = 64;

/// Whether a vCPU went on beyond a lease that ended then, or if it had no end, for as long since it last asked as is
/// [noticed](NOTICED).
pub(super) fn overran(lease_end: Time, since: Time, now: Time) -> bool {
    match lease_end {
        Time::NEVER => now.since(since) >= NOTICED,
        end => now > end + Lease::LATE,
    }
}

/// Watches the calling thread.
#[derive(Debug, Default)]
pub(super) struct CpuMeter {
    /// The thread's CPU time at the last reading.
    cpu: Nanos,
    /// How long it has been at work since then.
    worked: Nanos,
    sleeps: u32,
    /// For how long it had been kept waiting at the last look.
    kept_waiting: Nanos,
}

impl CpuMeter {
    /// The thread was at work from then to now. Returns how much of that the host took.
    pub(super) fn worked(&mut self, from: Time, now: Time) -> Nanos {
        let span = now.since(from);
        self.worked += span;
        if span < NOTICED {
            return Nanos::ZERO;
        }
        let worked = std::mem::take(&mut self.worked);
        let missing = worked - self.cpu_time();
        if missing < NOTICED {
            return Nanos::ZERO;
        }
        let waiting = host::kept_waiting();
        let waited = waiting - std::mem::replace(&mut self.kept_waiting, waiting);
        let taken = missing.min(waited).min(span);
        if taken < NOTICED { Nanos::ZERO } else { taken }
    }

    /// Of the time from when the thread looked until it has the lock to ask, so much counts as taken: the looks are
    /// system calls, after which a host whose CPUs are wanted runs another thread, and who holds the lock may be kept
    /// waiting as well.
    pub(super) fn until_asked(looked: Time, asks: Time) -> Nanos {
        let span = asks.since(looked);
        if span < NOTICED { Nanos::ZERO } else { span }
    }

    /// The thread has slept, and goes to work now.
    pub(super) fn slept(&mut self) {
        self.sleeps += 1;
        if self.sleeps == SLEEPS {
            self.sleeps = 0;
            self.worked = Nanos::ZERO;
            self.cpu_time();
        }
    }

    /// CPU time since the last reading.
    fn cpu_time(&mut self) -> Nanos {
        let cpu = thread_cpu_time();
        cpu - std::mem::replace(&mut self.cpu, cpu)
    }
}

#[cfg(not(all(test, shuttle)))]
mod host {
    use crate::time::Nanos;
    use std::fs;

    /// For how long the calling thread could run and had no CPU; nothing where the kernel does not tell.
    pub(super) fn kept_waiting() -> Nanos {
        let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        Nanos(text.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0))
    }
}

/// The model has no CPUs to take.
#[cfg(all(test, shuttle))]
mod host {
    use crate::time::Nanos;

    pub(super) fn kept_waiting() -> Nanos {
        Nanos::ZERO
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use crate::time::monotonic;
    use std::thread::sleep;
    use std::time::Duration;

    #[test]
    fn a_vcpu_overran_if_it_went_on_for_longer_than_a_kick_takes() {
        let (end, late) = (Time(5_000_000), Lease::LATE);
        assert!(!overran(end, Time(0), end + late));
        assert!(overran(end, Time(0), end + late + Nanos(1)));
        assert!(!overran(Time::NEVER, end, Time(end.0 + NOTICED.0 - 1)) && overran(Time::NEVER, end, end + NOTICED));
    }

    #[test]
    fn what_a_thread_sleeps_by_itself_is_not_taken() {
        let mut meter = CpuMeter::default();
        let _ = meter.worked(Time(0), Time(2_000_000));
        let begin = monotonic();
        sleep(Duration::from_millis(20));
        let now = monotonic();
        let kept = host::kept_waiting();
        assert!(meter.worked(begin, now) <= kept);
    }

    /// Beside two other threads on its CPU: what the thread had of a time, its CPU time, and what the meter noticed.
    fn beside_others(turn: Nanos) -> (Nanos, Nanos, Nanos) {
        let mut only = rustix::thread::CpuSet::new();
        only.set(rustix::thread::sched_getcpu());
        let on_one_cpu = move || rustix::thread::sched_setaffinity(None, &only).expect("the CPU is allowed");
        let ends = monotonic() + Nanos::from_millis(300);
        std::thread::scope(|s| {
            for _ in 0..2 {
                s.spawn(move || {
                    on_one_cpu();
                    while monotonic() < ends {}
                });
            }
            let measured = s.spawn(move || {
                on_one_cpu();
                let mut meter = CpuMeter::default();
                let (begin, cpu) = (monotonic(), thread_cpu_time());
                let (mut since, mut taken) = (begin, Nanos::ZERO);
                while since < ends {
                    while monotonic() < since + turn {}
                    let looked = monotonic();
                    taken += meter.worked(since, looked);
                    since = monotonic();
                    taken += CpuMeter::until_asked(looked, since);
                }
                (since.since(begin), thread_cpu_time() - cpu, taken)
            });
            measured.join().expect("it does not panic")
        })
    }

    #[test]
    fn what_other_threads_take_is_noticed_wherever_they_take_it() {
        for turn in [Nanos::from_micros(1_500), Nanos::from_millis(6)] {
            let (wall, cpu, taken) = beside_others(turn);
            let missing = wall - cpu;
            assert!(taken.0 * 10 >= missing.0 * 8, "turns of {turn:?}: {taken:?} of {missing:?} noticed");
        }
    }
}
