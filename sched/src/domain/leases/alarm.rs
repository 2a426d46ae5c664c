//! The policy's alarm: a thread that tells it the time.
//!
//! Under leases nobody is sure to look at a given time: a thread without a slot sleeps until it is woken, and one with a
//! slot may give it up. So a domain whose policy holds vCPUs back has one thread more, started with the first vCPU that can
//! be. It sleeps until the alarm, takes a turn with the lock, which ticks, and sleeps again.
//!
//! Invariant, outside the lock: the thread looks when the alarm comes, or has been woken since the alarm was set.

use super::core::{ACTS_OF_A_DECISION, Acts, Core};
use super::{Asker, HOME, Leases, Shared};
use crate::Time;
use crate::domain::enter_thread;
use crate::domain::parker::Parker;
use crate::lock::Caller;
use crate::slot::Word;
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{AtomicBool, Ordering};
use rustix::thread::CpuSet;
use std::io;
use std::sync::Arc;

/// The thread, as others see it.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    starts: AtomicBool,
    parker: Parker,
}

/// What the lock guards of it.
#[derive(Debug)]
pub(super) struct Watch {
    /// When the thread looks next.
    at: Time,
    pub(super) thread: Option<JoinHandle<()>>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { at: Time::NEVER, thread: None }
    }
}

impl Alarm {
    /// The alarm is earlier than the thread looks, or the domain ends.
    pub(super) fn wake(&self) {
        self.parker.wake();
    }
}

impl<W: Word> Leases<W> {
    /// Starts the thread, unless it runs.
    pub(super) fn start_alarm(&self) -> io::Result<()> {
        if self.shared.alarm.starts.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let shared = Arc::clone(&self.shared);
        let started = thread::Builder::new()
            .name("alarm".to_owned())
            .stack_size(crate::domain::STACK_BYTES)
            .spawn(move || shared.keep_time());
        match started {
            Ok(thread) => self.shared.core.lock().watch.thread = Some(thread),
            Err(e) => {
                self.shared.alarm.starts.store(false, Ordering::Relaxed);
                return Err(e);
            }
        }
        Ok(())
    }
}

impl<W: Word> Shared<W> {
    /// The life of the thread.
    fn keep_time(&self) {
        let mut cpus = CpuSet::new();
        self.slots.iter().for_each(|slot| cpus.set(slot.cpu));
        enter_thread(&cpus);
        HOME.set(std::ptr::from_ref(self).addr());
        let me = Asker { caller: Caller::Normal, looks: None };
        while !self.ending.load(Ordering::Relaxed) {
            self.turn(me, |_, _, _| ());
            let until = {
                let mut core = self.core.lock();
                core.watch.at = core.ledger.alarm();
                core.watch.at
            };
            self.alarm.parker.wait(until);
        }
    }

    /// Lets vCPUs go on that the policy held back, unless all threads end. True: there are more, for another turn.
    pub(super) fn tick(&self, core: &mut Core, now: Time, acts: &mut Acts) -> bool {
        while core.ledger.alarm() <= now && !self.ending.load(Ordering::Relaxed) {
            if acts.remaining_capacity() < 3 * ACTS_OF_A_DECISION {
                return true;
            }
            let Some(resumed) = core.ledger.tick(now) else { break };
            self.place(core, resumed.placement, now, acts);
        }
        false
    }
}

impl Core {
    /// Whether the alarm is earlier than the thread looks, which then is to be woken. At the end of a turn.
    pub(super) fn is_late(&mut self) -> bool {
        let (at, watched) = (self.ledger.alarm(), self.watch.at);
        self.watch.at = watched.min(at);
        at < watched
    }
}
