//! How long the host kept a domain's threads from running: what waits may have taken longer for it.
//!
//! Three sources, all the kernel's:
//! * how long threads were runnable and did not run (`schedstat`): other processes, or other threads of this one;
//! * what the machine below took (`steal` in `/proc/stat`);
//! * how late the watchdog itself was, far beyond what scheduling takes: the process was stopped.
//!
//! The first two are divided by the number of pCPUs: a domain that lacks one of two for a second lacks half of its
//! time. A thread that sleeps is not kept from running: if a vCPU waits meanwhile, the scheduler causes that itself.

use crate::kick::ThreadId;
use crate::time::{Nanos, Time};
use std::collections::{HashMap, VecDeque};
use std::fs;

/// Looks that are remembered; a bound has four.
const KEPT: usize = 256;
/// The watchdog was not just waiting for a CPU.
const STOPPED: Nanos = Nanos::from_millis(50);
/// The unit of `/proc/stat`, which is the same on every Linux.
const TICK: Nanos = Nanos::from_millis(10);

/// Reckons absences up.
#[derive(Debug)]
pub(super) struct Absence {
    pcpus: u64,
    threads: HashMap<i32, Reading>,
    stolen: Option<Nanos>,
    total: Nanos,
    /// The total at each look.
    history: VecDeque<(Time, Nanos)>,
}

/// The kernel's account of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reading {
    ran: Nanos,
    delayed: Nanos,
    /// It runs or could run.
    runnable: bool,
}

impl Absence {
    pub(super) fn new(pcpus: usize) -> Self {
        let pcpus = pcpus.max(1) as u64;
        Self { pcpus, threads: HashMap::new(), stolen: None, total: Nanos::ZERO, history: VecDeque::new() }
    }

    /// Looks at the domain's threads, at a look that was planned for this time.
    pub(super) fn sample(&mut self, threads: &[ThreadId], planned: Time, now: Time) {
        let readings = threads.iter().filter_map(|thread| Some((thread.0, reading(thread.0)?))).collect();
        self.add(readings, stolen(), planned, now);
    }

    /// How long the host was away since this time, in time of the whole domain.
    pub(super) fn since(&self, time: Time) -> Nanos {
        let before = self.history.iter().rev().find(|(at, _)| *at <= time).or(self.history.front());
        before.map_or(Nanos::ZERO, |(_, total)| self.total - *total)
    }

    fn add(&mut self, readings: HashMap<i32, Reading>, stolen: Option<Nanos>, planned: Time, now: Time) {
        if let Some((last, _)) = self.history.back() {
            let since = now.since(*last);
            let delays = readings
                .iter()
                .map(|(thread, now)| self.threads.get(thread).map_or(0, |then| now.delay(then, since).0));
            let stolen = stolen.unwrap_or_default() - self.stolen.unwrap_or_default();
            self.total += Nanos((delays.sum::<u64>() + stolen.0) / self.pcpus);
            let late = now.since(planned);
            if late > STOPPED {
                self.total += late;
            }
        }
        (self.threads, self.stolen) = (readings, stolen);
        if self.history.len() == KEPT {
            self.history.pop_front();
        }
        self.history.push_back((now, self.total));
    }
}

impl Reading {
    /// How long it could have run and did not, since an earlier reading.
    fn delay(&self, then: &Self, since: Nanos) -> Nanos {
        // The kernel adds a delay up once it is over.
        let still = self.runnable && then.runnable && self.ran == then.ran && self.delayed == then.delayed;
        if still { since } else { self.delayed - then.delayed }
    }
}

fn reading(thread: i32) -> Option<Reading> {
    let schedstat = fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).ok()?;
    let mut numbers = schedstat.split_whitespace().map_while(|number| number.parse().ok().map(Nanos));
    let (ran, delayed) = (numbers.next()?, numbers.next()?);
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat")).ok()?;
    // Behind the name, which may contain anything.
    let state = stat.rsplit(')').next()?.split_whitespace().next()?;
    Some(Reading { ran, delayed, runnable: state == "R" })
}

/// CPU time that this machine's host gave to others, of all CPUs.
fn stolen() -> Option<Nanos> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let ticks: u64 = stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(Nanos(ticks * TICK.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos::from_millis(1_000);

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    fn at(seconds: u64) -> Time {
        Time(seconds * SECOND.0)
    }

    fn two(ran: [u64; 2], delayed: [u64; 2]) -> HashMap<i32, Reading> {
        let reading = |thread: usize| Reading { ran: ms(ran[thread]), delayed: ms(delayed[thread]), runnable: true };
        [0, 1].map(|thread| (thread as i32, reading(thread))).into()
    }

    #[test]
    fn delays_and_steal_are_shared_by_the_pcpus_and_count_from_the_look_before_the_wait() {
        let mut absence = Absence::new(2);
        absence.add(two([0, 0], [500, 0]), Some(ms(70)), at(1), at(1));
        absence.add(two([600, 1000], [900, 0]), Some(ms(70)), at(2), at(2));
        absence.add(two([1600, 1900], [900, 100]), Some(ms(90)), at(3), at(3));
        assert_eq!(absence.since(at(3)), Nanos::ZERO);
        assert_eq!(absence.since(at(2) + ms(500)), ms(60));
        assert_eq!(absence.since(at(1)), ms(260));
        assert_eq!(absence.since(at(0)), ms(260), "from the first look on");
    }

    #[test]
    fn a_delay_that_lasts_is_seen_though_the_kernel_has_not_added_it_up() {
        let mut absence = Absence::new(1);
        let stuck = || HashMap::from([(7, Reading { ran: ms(3), delayed: ms(1), runnable: true })]);
        absence.add(stuck(), None, at(1), at(1));
        absence.add(stuck(), None, at(2), at(2));
        assert_eq!(absence.since(at(1)), SECOND);
    }

    #[test]
    fn a_thread_that_sleeps_is_not_kept_from_running() {
        let mut absence = Absence::new(1);
        let asleep = || HashMap::from([(7, Reading { ran: ms(3), delayed: ms(1), runnable: false })]);
        absence.add(asleep(), None, at(1), at(1));
        absence.add(asleep(), None, at(2), at(2));
        assert_eq!(absence.since(at(1)), Nanos::ZERO);
    }

    #[test]
    fn a_look_that_is_much_too_late_means_that_the_process_was_stopped() {
        let mut absence = Absence::new(2);
        absence.add(HashMap::new(), None, at(1), at(1));
        absence.add(HashMap::new(), None, at(2), at(2) + ms(20));
        absence.add(HashMap::new(), None, at(3), at(5));
        assert_eq!(absence.since(at(1)), ms(2_000));
    }

    #[test]
    fn the_kernel_tells_of_the_calling_thread() {
        let me = rustix::thread::gettid().as_raw_nonzero().get();
        // A running thread's time is added up at the next tick.
        crate::testing::wait_for(|| reading(me).unwrap().ran > Nanos::ZERO);
        assert!(reading(me).unwrap().runnable);
    }
}
