//! The vCPUs of a test: threads, with one flag each for events.

use super::{Manners, Park, Patience};
use std::sync::{Condvar, Mutex};
use std::time::Duration;
use stile_abi::{Hint, Presence};

/// Looks twice and yields.
pub(super) const EAGER: Patience = Patience { spins: 1, manners: Manners::Telling };
/// Nothing takes this long unless a wake-up was lost.
const LIMIT: Duration = Duration::from_secs(20);

/// The threads of a test.
pub(super) struct Threads(Vec<Event>);

#[derive(Default)]
struct Event {
    has_come: Mutex<bool>,
    came: Condvar,
}

/// One of the threads.
pub(super) struct ThreadVcpu<'a> {
    threads: &'a Threads,
    index: u32,
}

impl Threads {
    pub(super) fn new(vcpus: u32) -> Self {
        Self((0..vcpus).map(|_| Event::default()).collect())
    }

    pub(super) fn vcpu(&self, index: u32) -> ThreadVcpu<'_> {
        ThreadVcpu { threads: self, index }
    }

    /// Runs this on a thread for each vCPU, and waits for the ends.
    pub(super) fn run(&self, body: impl Fn(ThreadVcpu<'_>) + Sync) {
        std::thread::scope(|scope| {
            (0..self.0.len() as u32).for_each(|index| {
                let (body, vcpu) = (&body, self.vcpu(index));
                scope.spawn(move || body(vcpu));
            });
        });
    }

    pub(super) fn has_event(&self, vcpu: u32) -> bool {
        *self.0[vcpu as usize].has_come.lock().unwrap()
    }
}

impl Park for ThreadVcpu<'_> {
    fn index(&self) -> u32 {
        self.index
    }

    fn idle(&self) {
        let event = &self.threads.0[self.index as usize];
        let has_come = event.has_come.lock().unwrap();
        let (mut has_come, waited) = event.came.wait_timeout_while(has_come, LIMIT, |has_come| !*has_come).unwrap();
        assert!(!waited.timed_out(), "a wake-up was lost");
        *has_come = false;
    }

    fn kick(&self, vcpu: u32) {
        let event = &self.threads.0[vcpu as usize];
        *event.has_come.lock().unwrap() = true;
        event.came.notify_one();
    }

    fn yield_now(&self, _: Hint) {
        std::thread::yield_now();
    }

    fn presence(&self, _: u16) -> Presence {
        Presence::Untold
    }
}
