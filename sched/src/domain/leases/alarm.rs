//! The policy's alarm: a thread that tells it the time.
//!
//! Under leases no thread is sure to look at a given time: a thread without a slot sleeps until it is woken, and one
//! with a slot may give it up. So a domain whose policy holds vCPUs back has one thread more, started with the first
//! vCPU that can be held back. It sleeps until the first alarm of any shard, takes a turn with each lock, which ticks,
//! and sleeps again.
//!
//! Invariant, outside the lock of a shard: the thread looks when its alarm comes, or has been woken since the alarm was
//! set.

use super::acts::{ACTS_OF_A_DECISION, Acts};
use super::locked_state::LockedState;
use super::shared::{Asker, HOME, Shared};
use crate::domain::carrier_thread::{STACK_BYTES, enter_thread};
use crate::domain::moves::Moves;
use crate::domain::parker::Parker;
use crate::lock::Caller;
use crate::slot::Word;
use crate::sync::{
    Mutex, Ordering,
    thread::{self, JoinHandle},
};
use crate::time::Time;

use rustix::thread::CpuSet;
use std::io;
use std::sync::Arc;

/// The thread, as others see it.
#[derive(Debug, Default)]
pub(super) struct Alarm {
    thread: Mutex<Option<JoinHandle<()>>>,
    parker: Parker,
}

impl Alarm {
    /// The alarm is earlier than the thread looks, or the domain ends.
    pub(super) fn wake(&self) {
        self.parker.wake();
    }

    /// The domain ends.
    pub(super) fn end(&self) -> Option<JoinHandle<()>> {
        self.parker.wake();
        self.thread.lock().take()
    }
}

impl<W: Word> Shared<W> {
    /// Starts the thread, unless it runs.
    pub(super) fn start_alarm(self: &Arc<Self>) -> io::Result<()> {
        let mut thread = self.alarm.thread.lock();
        if thread.is_none() {
            let shared = Arc::clone(self);
            let started = thread::Builder::new().name("alarm".to_owned()).stack_size(STACK_BYTES);
            *thread = Some(started.spawn(move || shared.keep_time())?);
        }
        Ok(())
    }

    /// The life of the thread.
    fn keep_time(&self) {
        let mut cpus = CpuSet::new();
        self.slots.iter().for_each(|slot| cpus.set(slot.cpu));
        enter_thread(&cpus);
        HOME.with(|home| home.set(std::ptr::from_ref(self).addr()));
        let me = Asker { caller: Caller::Normal, rechecks: None };
        while !self.ending.load(Ordering::Relaxed) {
            let mut until = Time::NEVER;
            for shard in self.division.plan.shards() {
                self.turn(shard, me, |_, _, _| ());
                let mut state = self.lock(shard);
                state.looks_at = state.ledger.alarm();
                until = until.min(state.looks_at);
            }
            self.alarm.parker.wait(until);
        }
    }

    /// Lets vCPUs go on that the policy held back, unless all threads end. True: there are more, for another turn.
    pub(super) fn tick(&self, state: &mut LockedState, now: Time, acts: &mut Acts) -> bool {
        while state.ledger.alarm() <= now && !self.ending.load(Ordering::Relaxed) {
            if acts.remaining_capacity() < 3 * ACTS_OF_A_DECISION {
                return true;
            }
            let Some(resumed) = state.ledger.tick(now) else { break };
            self.place(state, resumed.placement, now, acts);
        }
        false
    }
}
