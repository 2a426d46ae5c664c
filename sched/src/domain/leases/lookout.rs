//! The lookouts: a thread for each pCPU that finds a vCPU that halted while it holds a slot, where the kernel refuses
//! to kick a thread for leaving its CPU.
//!
//! A lookout is bound to its pCPU and in the host's class *idle*, so the host runs it when nothing else wants the pCPU.
//! That is when the vCPU's thread has left it. The lookout kicks that thread and sleeps until the thread asks to be
//! looked at again. No right is needed for any of it.
//!
//! The host also gives the class *idle* a small share beside a thread that runs (3 of 1027 parts of CPU time). Then the
//! thread has used CPU time from one look to the next, and is not kicked.
//!
//! On a pCPU that another program keeps busy, a lookout comes late. The [watcher](super::watcher) is for that.

use super::thread_clock::cpu_time;
use crate::attributes::Class;
use crate::domain::carrier_thread::{STACK_BYTES, enter_thread};
use crate::domain::host_class;
use crate::domain::parker::Parker;
use crate::kick::{self, ThreadId};
use crate::sync::{
    AtomicBool, AtomicI32, Mutex, Ordering,
    thread::{self, JoinHandle},
};
use crate::time::Time;
use rustix::thread::CpuSet;
use std::io;
use std::sync::Arc;

/// No thread has this number.
const NOBODY: i32 = 0;

/// The lookout of one pCPU, as others see it.
#[derive(Debug, Default)]
pub(super) struct Lookout {
    /// The thread to kick once it has left the pCPU.
    watched: AtomicI32,
    parker: Parker,
    thread: Mutex<Option<JoinHandle<()>>>,
    ending: AtomicBool,
}

impl Lookout {
    /// Starts the thread, unless it runs, for this CPU of the host.
    pub(super) fn start(self: &Arc<Self>, cpu: usize) -> io::Result<()> {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let lookout = Arc::clone(self);
            let started = thread::Builder::new().name(format!("lookout {cpu}")).stack_size(STACK_BYTES);
            *thread = Some(started.spawn(move || lookout.look_from(cpu))?);
        }
        Ok(())
    }

    /// The calling thread is about to run its vCPU on the pCPU, and is kicked if it leaves it. Cost: a load, or if it
    /// was kicked or has just come, a wake.
    pub(super) fn watch(&self) {
        let me = kick::this_thread().0;
        if self.watched.load(Ordering::Relaxed) != me {
            // The parker's Release and Acquire make it seen.
            self.watched.store(me, Ordering::Relaxed);
            self.parker.wake();
        }
    }

    /// The calling thread gives the pCPU up. A kick may be on its way.
    pub(super) fn leave(&self) {
        let me = kick::this_thread().0;
        let _ = self.watched.compare_exchange(me, NOBODY, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// The domain ends.
    pub(super) fn end(&self) -> Option<JoinHandle<()>> {
        self.ending.store(true, Ordering::Relaxed);
        self.parker.wake();
        self.thread.lock().take()
    }

    /// The life of the thread.
    fn look_from(&self, cpu: usize) {
        let mut only = CpuSet::new();
        only.set(cpu);
        enter_thread(&only);
        // Any thread may lower itself. Should the kernel refuse it all the same, the watcher does the work: as an
        // ordinary thread this one would take turns with the vCPU's.
        if host_class::enter(Class::Idle).is_err() {
            return;
        }
        while !self.ending.load(Ordering::Relaxed) {
            self.look();
        }
    }

    /// Looks once at the thread that is watched, or waits for one.
    fn look(&self) {
        let number = self.watched.load(Ordering::Relaxed);
        if number == NOBODY {
            self.parker.wait(Time::NEVER);
            return;
        }
        let thread = ThreadId(number);
        let before = cpu_time(thread);
        rustix::thread::sched_yield();
        let stands = cpu_time(thread) == before;
        // Whoever takes the number out kicks: so there is one kick for each time that a thread asked.
        if stands && self.watched.compare_exchange(number, NOBODY, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            kick::send(thread);
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::time::{Nanos, monotonic};

    /// A lookout and a thread on one pCPU of the host: the thread asks to be watched, does this, and tells how long it
    /// then waited for a kick, if one came within ten seconds.
    fn kicked_after(something: impl FnOnce() + Send) -> bool {
        let lookout = Lookout::default();
        std::thread::scope(|scope| {
            let watched = scope.spawn(|| {
                kick::block();
                lookout.watch();
                something();
                kick::wait(Nanos::from_millis(10_000))
            });
            while !watched.is_finished() {
                lookout.look_for(Nanos::from_millis(1));
            }
            watched.join().unwrap()
        })
    }

    impl Lookout {
        /// As [`look`](Self::look), but waits no longer than this.
        fn look_for(&self, span: Nanos) {
            match self.watched.load(Ordering::Relaxed) {
                NOBODY => {
                    self.parker.wait(monotonic() + span);
                }
                _ => self.look(),
            }
        }
    }

    #[test]
    fn a_thread_that_waits_is_kicked() {
        assert!(kicked_after(|| ()));
    }

    #[test]
    fn a_thread_that_gave_its_pcpu_up_is_not_watched() {
        let lookout = Lookout::default();
        lookout.watch();
        lookout.leave();
        assert_eq!(lookout.watched.load(Ordering::Relaxed), NOBODY);
        lookout.watched.store(7, Ordering::Relaxed);
        lookout.leave();
        assert_eq!(lookout.watched.load(Ordering::Relaxed), 7, "of another thread");
    }
}
