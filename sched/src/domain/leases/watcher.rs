//! The watcher: a thread that finds a vCPU that halted while it holds a slot, where the kernel refuses to kick a thread
//! for leaving its CPU, and where another program keeps the pCPU's [lookout](super::lookout) from running.
//!
//! A thread that holds a slot and has used no CPU time from one look to the next is kicked. If it did not halt but was
//! kept from running, that costs an exit. So a halt is found within two periods. A look costs some half a microsecond
//! for each slot and the lock of its shard, whatever the number of vCPUs. While no such vCPU holds a slot, the watcher
//! sleeps.

use super::shared::Shared;
use super::thread_clock::cpu_time;
use crate::domain::carrier_thread::{STACK_BYTES, enter_thread};
use crate::domain::moves::Moves;
use crate::domain::parker::Parker;
use crate::ids::VcpuId;
use crate::kick;
use crate::slot::Word;
use crate::sync::{
    AtomicBool, Mutex, Ordering, fence,
    thread::{self, JoinHandle},
};
use crate::time::{Nanos, Time, monotonic};
use rustix::thread::CpuSet;
use std::io;
use std::sync::Arc;

/// Between two looks: 250 of them in a second take some 1.3 ms.
const PERIOD: Nanos = Nanos::from_millis(4);

/// The thread, as others see it.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    thread: Mutex<Option<JoinHandle<()>>>,
    /// It found no thread to look at, and waits until one begins to run.
    sleeps: AtomicBool,
    parker: Parker,
}

/// The vCPU on a slot at the last look, and the CPU time of its thread.
type Seen = Option<(VcpuId, Nanos)>;

impl Watcher {
    /// A vCPU that is watched begins to run.
    pub(super) fn begins(&self) {
        // Pairs with the watcher's: either it sees the vCPU run, or this sees that it sleeps.
        fence(Ordering::SeqCst);
        if self.sleeps.load(Ordering::Relaxed) {
            self.parker.wake();
        }
    }

    /// The domain ends.
    pub(super) fn end(&self) -> Option<JoinHandle<()>> {
        self.parker.wake();
        self.thread.lock().take()
    }
}

impl<W: Word> Shared<W> {
    /// Starts the thread, unless it runs.
    pub(super) fn watch_halts(self: &Arc<Self>) -> io::Result<()> {
        let mut thread = self.watcher.thread.lock();
        if thread.is_none() {
            let shared = Arc::clone(self);
            let started = thread::Builder::new().name("watcher".to_owned()).stack_size(STACK_BYTES);
            *thread = Some(started.spawn(move || shared.watch())?);
        }
        Ok(())
    }

    /// The life of the thread.
    fn watch(&self) {
        let mut cpus = CpuSet::new();
        self.slots.iter().for_each(|slot| cpus.set(slot.cpu));
        enter_thread(&cpus);
        let mut seen: Vec<Seen> = vec![None; self.slots.len()];
        while !self.ending.load(Ordering::Relaxed) {
            if self.kick_who_stands(&mut seen) {
                self.watcher.parker.wait(monotonic() + PERIOD);
                continue;
            }
            self.watcher.sleeps.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if !self.kick_who_stands(&mut seen) {
                self.watcher.parker.wait(Time::NEVER);
            }
            self.watcher.sleeps.store(false, Ordering::Relaxed);
        }
    }

    /// Kicks the threads that have used no CPU time since the last look. False: there is no thread to look at.
    fn kick_who_stands(&self, seen: &mut [Seen]) -> bool {
        let mut now: Vec<Seen> = Vec::with_capacity(seen.len());
        for shard in self.division.plan.shards() {
            let state = self.lock(shard);
            let on = state.all_on().map(|on| on.filter(|vcpu| self.is_watched(*vcpu)));
            now.extend(on.map(|vcpu| vcpu.map(|vcpu| (vcpu, Nanos::ZERO))));
        }
        let mut any = false;
        for (before, now) in seen.iter_mut().zip(now) {
            let now = now.and_then(|(vcpu, _)| Some((vcpu, cpu_time(self.records.of(vcpu).thread())?)));
            any |= now.is_some();
            if let Some((vcpu, _)) = now
                && now == *before
            {
                kick::send(self.records.of(vcpu).thread());
            }
            *before = now;
        }
        any
    }

    fn is_watched(&self, vcpu: VcpuId) -> bool {
        let record = self.records.of(vcpu);
        record.watched.load(Ordering::Relaxed) && record.account.runs()
    }
}
