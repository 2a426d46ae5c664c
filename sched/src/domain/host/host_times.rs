//! A vCPU's times by what the host says of its thread, told so that they contradict neither each other nor what was
//! told before: run, wait and idleness make up the time since the vCPU was made, and none of them ever goes back.
//!
//! What the host itself says does neither: it counts a wait once it is over, and its figures are read one after the
//! other while the thread goes on.

#![allow(unsafe_code, reason = "the clock of another thread: rustix has none of it")]

use super::record::Record;
use crate::kick::ThreadId;
use crate::sync::{AtomicU64, Mutex, Ordering::Relaxed};
use crate::time::{Nanos, Time, monotonic};
use std::mem::MaybeUninit;

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct HostTimes(Mutex<Times>);

/// What a vCPU did since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) run: Nanos,
    pub(super) wait: Nanos,
    pub(super) idle: Nanos,
}

impl HostTimes {
    /// The times of this vCPU now, and what the host said.
    pub(super) fn now(&self, record: &Record) -> (Times, HostAccount) {
        let mut told = self.0.lock();
        let host = of_thread(record);
        let now = monotonic();
        let alive = now.since(record.born);
        let idle = match record.halts {
            // Only the host can tell its waits from its halts.
            true => alive - host.run - host.delayed,
            false => record.idle.read(now),
        };
        *told = told.onward(host.run, idle, alive);
        (*told, host)
    }
}

impl Times {
    /// Onward from here to these times, as far as they and the time since the vCPU was made allow. A wait is what is
    /// left of it.
    fn onward(self, run: Nanos, idle: Nanos, alive: Nanos) -> Self {
        let mut left = alive - (self.run + self.wait + self.idle);
        let mut onward = |from: Nanos, to: Nanos| {
            let more = (to - from).min(left);
            left = left - more;
            from + more
        };
        let (idle, run) = (onward(self.idle, idle), onward(self.run, run));
        Self { run, wait: self.wait + left, idle }
    }
}

/// Time without an event to act on. The host counts a wait only once it is over, and not what an event's way to its
/// thread takes; so waits are what is left of a vCPU's time.
#[derive(Debug, Default)]
pub(super) struct Idle {
    /// When it began, 0 while the vCPU is not idle.
    since: AtomicU64,
    /// When the first event since then came, 0 if none has.
    woken: AtomicU64,
    ended: AtomicU64,
}

impl Idle {
    /// The vCPU has nothing to do from now on. By its thread, as `end`.
    pub(super) fn begin(&self, now: Time) {
        self.woken.store(0, Relaxed);
        self.since.store(now.0, Relaxed);
    }

    /// An event, before the thread is woken.
    pub(super) fn wake(&self, now: Time) {
        let _ = self.woken.compare_exchange(0, now.0, Relaxed, Relaxed);
    }

    /// The vCPU goes on; it could since this deadline.
    pub(super) fn end(&self, until: Time, now: Time) {
        let since = Time(self.since.swap(0, Relaxed));
        let woken = Time(self.woken.load(Relaxed).max(since.0));
        let over = if woken == since { until.min(now) } else { woken.min(until).min(now) };
        self.ended.store(self.ended.load(Relaxed) + over.since(since).0, Relaxed);
    }

    fn read(&self, now: Time) -> Nanos {
        let under_way = match (self.since.load(Relaxed), self.woken.load(Relaxed)) {
            (0, _) => Nanos::ZERO,
            (since, 0) => now.since(Time(since)),
            (since, woken) => Time(woken).since(Time(since)),
        };
        Nanos(self.ended.load(Relaxed)) + under_way
    }
}

/// The host's account of a thread.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HostAccount {
    run: Nanos,
    /// Runnable and not running.
    delayed: Nanos,
    pub(super) switches: u64,
    pub(super) migrations: u64,
}

/// The host's account of a vCPU's thread; nothing before it has one.
pub(super) fn of_thread(record: &Record) -> HostAccount {
    record.thread.get().map_or(HostAccount::default(), |thread| host_account(*thread))
}

/// Reads it. What the kernel does not tell counts as 0: a kernel may be built without `sched`.
fn host_account(thread: ThreadId) -> HostAccount {
    let read = |file| std::fs::read_to_string(format!("/proc/self/task/{}/{file}", thread.0)).unwrap_or_default();
    let after = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key))?;
        line.split_whitespace().last()?.parse::<u64>().ok()
    };
    let (status, schedstat) = (read("status"), read("schedstat"));
    HostAccount {
        run: cpu_time(thread),
        delayed: Nanos(schedstat.split_whitespace().nth(1).and_then(|time| time.parse().ok()).unwrap_or(0)),
        switches: after(&status, "voluntary_ctxt_switches").unwrap_or(0)
            + after(&status, "nonvoluntary_ctxt_switches").unwrap_or(0),
        migrations: after(&read("sched"), "se.nr_migrations").unwrap_or(0),
    }
}

/// How long a thread of this process has run; none once it has ended. To the moment, where the file `schedstat` is
/// behind by up to a tick while the thread runs.
fn cpu_time(thread: ThreadId) -> Nanos {
    // A thread's id in a clock's, as CPUCLOCK_PERTHREAD and CPUCLOCK_SCHED of Linux' include/linux/posix-timers.h have
    // it.
    let clock = (!thread.0 << 3) | 4 | 2;
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: room for the time, which is written unless the call fails.
    let time = unsafe { (libc::clock_gettime(clock, time.as_mut_ptr()) == 0).then(|| time.assume_init()) };
    time.map_or(Nanos::ZERO, |time| Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64))
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const fn times(run: u64, wait: u64, idle: u64) -> Times {
        Times { run: Nanos(run), wait: Nanos(wait), idle: Nanos(idle) }
    }

    #[test]
    fn times_make_up_a_vcpus_life_and_what_is_neither_run_nor_idle_was_a_wait() {
        assert_eq!(times(0, 0, 0).onward(Nanos(50), Nanos(20), Nanos(100)), times(50, 30, 20));
        assert_eq!(times(50, 30, 20).onward(Nanos(70), Nanos(25), Nanos(130)), times(70, 35, 25));
    }

    #[test]
    fn run_that_is_told_late_takes_no_wait_back() {
        let behind = times(0, 0, 0).onward(Nanos(96), Nanos::ZERO, Nanos(100));
        assert_eq!(behind, times(96, 4, 0));
        assert_eq!(behind.onward(Nanos(200), Nanos::ZERO, Nanos(200)), times(196, 4, 0));
    }

    #[test]
    fn figures_that_go_back_leave_what_was_told() {
        let told = times(40, 30, 30);
        assert_eq!(told.onward(Nanos(35), Nanos(20), Nanos(100)), told);
        assert_eq!(told.onward(Nanos(35), Nanos(20), Nanos(110)), times(40, 40, 30));
    }

    #[test]
    fn idleness_ends_with_the_event_and_not_with_the_look_at_it() {
        let idle = Idle::default();
        idle.begin(Time(100));
        assert_eq!(idle.read(Time(150)), Nanos(50));
        idle.wake(Time(160));
        assert_eq!(idle.read(Time(190)), Nanos(60));
        idle.end(Time::NEVER, Time(200));
        assert_eq!(idle.read(Time(300)), Nanos(60));
    }
}
