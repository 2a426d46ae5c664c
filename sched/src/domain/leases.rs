//! Leases: a thread per vCPU, which runs only while it holds a slot.
//!
//! The rump kernel's own model: a thread schedules itself a CPU, and gives it up when it waits. It suits guests that wait
//! inside KVM_RUN, where an executor would wait with them, and kernels on which a vCPU should not go from thread to thread.
//! The price against [`Executors`](super::executors::Executors): a switch wakes a thread.
//!
//! # Protocol of a slot
//! 1. The holder runs its vCPU. An exit that leaves the vCPU runnable goes straight back while the slot is not wanted, and
//!    so does a yield while nobody waits: one load each, no lock.
//! 2. A vCPU that blocks while nobody waits *naps*: it releases its slot with one swap and waits on its parker; an event
//!    rouses the thread, which takes the slot back with one CAS. No lock, and the policy is not told. `gate.rs` is the
//!    protocol by which nobody who waits overlooks such a slot.
//! 3. Else the holder *asks*: it takes the lock, settles what napped, tells the policy why the vCPU stopped, and does what
//!    it decides. If another vCPU is to run, the slot is handed to it: the word says so, its thread is bound to the slot's
//!    pCPU, then granted and woken. The giver waits on its parker.
//! 4. A thread that was granted a slot starts on it with one CAS, without the lock. The lease has begun when it was handed
//!    the slot; a vCPU whose lease has ended on the way runs for a moment all the same (`LEAST` in `thread.rs`), else it
//!    might never get on where waking a thread takes as long as a lease.
//! 5. Who wakes a blocked vCPU asks the policy in its name, so that its thread is woken only to run. A thread whose
//!    deadline comes does so itself.
//! 6. Those that put somebody into the queue stamp a slot under the lock, be it left for a nap even, lest its vCPU come back
//!    to it before it is settled and run on; and then kick its thread if theirs is the first stamp; the holder takes the
//!    stamp off when it asks, under the lock as well, so a stamp set after the policy has answered makes it ask again.
//! 7. A vCPU that halts inside its run, where only it sees what ends the wait, gives its slot up as any that blocks, and its
//!    thread waits inside as well, without running it (`thread/doze.rs`). When there is an event the thread comes back and
//!    asks, as at a deadline.
//! 8. Who shares a cap is charged for what it ran: it does not nap, and says how late it began when it next asks. A thread
//!    of the domain's own tells the policy when it is time for those it holds back (`alarm.rs`).
//!
//! The time of a nap is charged when the policy hears of it, or never; nobody waited, and policies charge such time at
//! most in part (`rsdl` a step).
//!
//! # One pCPU
//! A domain of one pCPU uses slot words without a bus lock. Then only threads bound to that CPU may touch them, so wakes
//! from other threads only signal the event and wake the vCPU's own thread, which does the rest.
//!
//! The lock is never held across a system call, nor while a vCPU is dropped.

mod alarm;
mod core;
mod evacuation;
mod gate;
mod record;
mod ride;
mod steal;
#[cfg(test)]
#[cfg(not(shuttle))]
mod tests;
mod thread;
mod watcher;

use self::alarm::{Alarm, Watch};
use self::core::{Act, Acts, Core, Entry, SlotEntry};
use super::counts::Tally;
use super::evacuate::Evacuate;
use super::events::Found;
use super::executors::MAX_VCPUS;
use super::numbers::Numbers;
use super::{Attributes, Domain, DomainError, Totals, kick};
use crate::histogram::Histogram;
use crate::ledger::{self, Account, Ledger, Seen, Trace};
use crate::lock::{Caller, LockRules, QueueLock};
use crate::policy::{Policy, Why};
#[cfg(target_arch = "x86_64")]
use crate::slot::Up;
use crate::slot::{SlotWord, Smp, Word};
use crate::sync::{AtomicBool, Ordering, mpsc, thread as threads};
use crate::time::monotonic;
use crate::{Time, Vcpu, VcpuId};
use gate::Gate;
use record::Records;
use ride::Rides;
use rustix::thread::{CpuSet, Pid};
use std::cell::Cell;
use std::sync::Arc;
use watcher::Watcher;

thread_local! {
    /// The domain whose vCPU the thread carries, by its address.
    static HOME: Cell<usize> = const { Cell::new(0) };
}

/// What can be switched on and off, to measure what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    /// A vCPU whose deadline comes asks for its slot in the host's real-time class, where that is permitted.
    pub ride: bool,
    /// A vCPU whose thread finds it runnable takes a slot handed to another thread that has not begun to run.
    pub steal: bool,
    /// A vCPU that is seen spinning at a kick yields, and is looked at earlier from then on.
    pub spin_detection: bool,
    /// A thread whose vCPU halts inside is kicked by leaving its CPU, where that is permitted; else a watcher looks.
    pub departures: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self { ride: true, steal: true, spin_detection: true, departures: true }
    }
}

/// A domain with a policy and a thread for each vCPU.
pub struct Leases<W> {
    shared: Arc<Shared<W>>,
}

struct Shared<W> {
    core: QueueLock<Core>,
    trace: Arc<Trace>,
    slots: Box<[SlotShared<W>]>,
    records: Records,
    gate: Gate,
    rides: Rides,
    alarm: Alarm,
    watcher: Watcher,
    steals: bool,
    keeps_slot_over_exits: bool,
    told_of_lone_yields: bool,
    detects_spinning: bool,
    tells_presence: bool,
    departures: bool,
    ending: AtomicBool,
}

/// What all threads may see of a slot.
#[derive(Debug)]
struct SlotShared<W> {
    word: SlotWord<W>,
    /// The host's number of the pCPU.
    cpu: usize,
}

/// Who takes a turn with the lock.
#[derive(Clone, Copy)]
struct Asker {
    caller: Caller,
    /// The calling thread, if it looks at its own slot's word next: it is in the middle of its vCPU's exit, if it carries
    /// one at all.
    looks: Option<kick::ThreadId>,
}

/// Why a vCPU stopped, and if it blocks, until when.
#[derive(Clone, Copy)]
struct Stopped {
    why: Why,
    until: Time,
    /// The event is one that only the vCPU sees.
    dozes: bool,
}

impl<W: Word> std::fmt::Debug for Leases<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shared { slots, gate, .. } = &*self.shared;
        f.debug_struct("Leases").field("slots", slots).field("gate", gate).finish_non_exhaustive()
    }
}

/// A domain on these host CPUs, whose slots they are in this order; with slot words for one CPU if it is one.
pub fn start(cpus: &[usize], policy: Box<dyn Policy>, rules: LockRules, switches: Switches) -> Arc<dyn Evacuate> {
    #[cfg(target_arch = "x86_64")]
    if let [_only] = cpus {
        return Arc::new(Leases::<Up>::new(cpus, policy, rules, switches));
    }
    Arc::new(Leases::<Smp>::new(cpus, policy, rules, switches))
}

impl<W: Word> Leases<W> {
    fn new(cpus: &[usize], policy: Box<dyn Policy>, rules: LockRules, switches: Switches) -> Self {
        debug_assert!(W::ANY_CPU || cpus.len() == 1);
        let (keeps_slot_over_exits, told_of_lone_yields) =
            (policy.keeps_slot_over_exits(), policy.is_told_of_lone_yields());
        let tells_presence = policy.tells_presence();
        let ledger = Ledger::new(policy, cpus.len(), ledger::KEPT);
        let shared = Shared {
            keeps_slot_over_exits,
            told_of_lone_yields,
            trace: ledger.trace(),
            core: QueueLock::new(
                Core {
                    ledger,
                    numbers: Numbers::default(),
                    vcpus: Vec::new(),
                    slots: vec![SlotEntry::default(); cpus.len()].into(),
                    watch: Watch::default(),
                    ended: Tally::default(),
                },
                rules,
            ),
            slots: cpus.iter().map(|&cpu| SlotShared { word: SlotWord::default(), cpu }).collect(),
            records: Records::default(),
            gate: Gate::new(cpus.len()),
            rides: Rides::new(cpus.len(), switches.ride),
            alarm: Alarm::default(),
            watcher: Watcher::default(),
            steals: switches.steal,
            detects_spinning: switches.spin_detection,
            tells_presence,
            departures: switches.departures,
            ending: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Starts the thread of a vCPU that the core knows, and waits until it can be granted a slot.
    fn start_thread(&self, id: VcpuId, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> std::io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let (ready, started) = mpsc::sync_channel(1);
        let thread = threads::Builder::new()
            .name(format!("vcpu {id}"))
            .stack_size(super::STACK_BYTES)
            .spawn(move || thread::carry(shared, (id, attributes), vcpu, &ready))?;
        let failed = || Err(std::io::Error::other("a vCPU's thread ended while it started"));
        started.recv().unwrap_or_else(|_| failed())?;
        // Should a late event for the id's last vCPU have ended this one already, its thread is on its own.
        if let Some(entry) = self.shared.core.lock().vcpus[id.index()].as_mut() {
            entry.thread = Some(thread);
        }
        Ok(())
    }
}

impl<W> Leases<W> {
    /// Ends all threads, which leave their vCPUs in the core.
    fn stop(&self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        let mut threads = Vec::new();
        {
            let mut core = self.shared.core.lock();
            for (index, entry) in core.vcpus.iter_mut().enumerate() {
                let Some(thread) = entry.as_mut().and_then(|entry| entry.thread.take()) else { continue };
                threads.push((VcpuId(index as u32), thread));
            }
        }
        for (id, _) in &threads {
            let record = self.shared.records.of(*id);
            record.parker.wake();
            kick::send(record.thread());
        }
        self.shared.alarm.wake();
        let alarm = self.shared.core.lock().watch.thread.take();
        let watcher = self.shared.watcher.end();
        for thread in threads.into_iter().map(|(_, thread)| thread).chain(alarm).chain(watcher) {
            // A panic there was reported by the panic hook; there is nothing left to do about it.
            let _ = thread.join();
        }
    }
}

impl<W> Drop for Leases<W> {
    fn drop(&mut self) {
        self.stop();
    }
}

impl<W: Word> Domain for Leases<W> {
    fn add(&self, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> Result<VcpuId, DomainError> {
        if attributes.group.is_some() {
            self.start_alarm().map_err(DomainError::Thread)?;
        }
        let id = {
            let mut core = self.shared.core.lock();
            let id = core.numbers.take(MAX_VCPUS).ok_or(DomainError::Full(MAX_VCPUS))?;
            if id.index() == core.vcpus.len() {
                core.vcpus.push(None);
            }
            core.ledger.add(id, attributes, monotonic());
            core.vcpus[id.index()] = Some(Entry::default());
            self.shared.records.admit(id);
            id
        };
        self.start_thread(id, vcpu, attributes).map_err(|e| {
            let mut core = self.shared.core.lock();
            let now = monotonic();
            core.ledger.remove(id, now);
            self.shared.forget(&mut core, id, now);
            DomainError::Thread(e)
        })?;
        Ok(id)
    }

    fn wake(&self, vcpu: VcpuId) {
        let Some(record) = self.shared.records.get(vcpu) else { return };
        match record.events.signal() {
            Found::Nothing => {}
            Found::Blocked if self.shared.may_touch_slots() => {
                let me = Asker { caller: Caller::Normal, looks: Some(kick::this_thread()) };
                self.shared.turn(me, |core, now, acts| {
                    self.shared.unblock(core, vcpu, now, acts);
                });
            }
            Found::Blocked | Found::Napping => record.rouse(),
        }
    }

    fn retire(&self, vcpu: VcpuId) {
        let record = {
            let core = self.shared.core.lock();
            if !core.is_alive(vcpu) {
                return;
            }
            let record = self.shared.records.of(vcpu);
            record.retiring.store(true, Ordering::Relaxed);
            record
        };
        record.parker.wake();
        kick::send(record.thread());
    }

    fn account(&self, vcpu: VcpuId) -> Option<Account> {
        let core = self.shared.core.lock();
        let now = monotonic();
        Some(self.shared.complete(core.ledger.account_of(vcpu, now)?, vcpu, now))
    }

    fn kicks(&self) -> Histogram {
        self.shared.core.lock().ledger.counts().kicks.clone()
    }

    fn trace(&self) -> Option<Arc<Trace>> {
        Some(Arc::clone(&self.shared.trace))
    }

    fn look(&self, from: VcpuId, seen: &mut Vec<Seen>) -> Option<VcpuId> {
        self.shared.core.lock().ledger.look(from, super::STRETCH, seen)
    }

    fn threads(&self) -> Vec<kick::ThreadId> {
        let core = self.shared.core.lock();
        let alive = core.vcpus.iter().enumerate().filter(|(_, entry)| entry.is_some());
        alive.map(|(index, _)| self.shared.records.of(VcpuId(index as u32)).thread()).collect()
    }

    fn totals(&self) -> Totals {
        let core = self.shared.core.lock();
        let alive = core.vcpus.iter().enumerate().filter(|(_, entry)| entry.is_some());
        let counted = alive.map(|(index, _)| self.shared.records.of(VcpuId(index as u32)).counts.read());
        counted.fold(core.ended, Tally::plus).totals(core.ledger.counts(), core.ledger.yield_counts())
    }
}

impl<W: Word> Shared<W> {
    /// Whether the calling thread may touch slot words.
    fn may_touch_slots(&self) -> bool {
        W::ANY_CPU || HOME.get() == std::ptr::from_ref(self).addr()
    }

    /// A turn with the lock: settles what napped, lets go on what was held back if it is time, does something, tells whether somebody waits; then does for others what
    /// came of it.
    fn turn<R>(&self, me: Asker, something: impl FnOnce(&mut Core, Time, &mut Acts) -> R) -> R {
        debug_assert!(self.may_touch_slots());
        let mut acts = Acts::new();
        let (result, mut more, mut late) = {
            let mut core = self.core.lock_as(me.caller);
            let now = monotonic();
            let left = self.settle(&mut core, now, &mut acts) || self.tick(&mut core, now, &mut acts);
            let result = something(&mut core, now, &mut acts);
            let more = self.publish(&mut core, now, &mut acts);
            (result, left || more, core.is_late())
        };
        acts.drain(..).for_each(|act| self.perform(act, me.looks));
        while more {
            {
                let mut core = self.core.lock_as(me.caller);
                let now = monotonic();
                let left = self.settle(&mut core, now, &mut acts) || self.tick(&mut core, now, &mut acts);
                more = left || self.publish(&mut core, now, &mut acts);
                late |= core.is_late();
            }
            acts.drain(..).for_each(|act| self.perform(act, me.looks));
        }
        if late {
            self.alarm.wake();
        }
        result
    }

    fn perform(&self, act: Act, looks: Option<kick::ThreadId>) {
        match act {
            Act::Grant { vcpu, slot, bind } => {
                let record = self.records.of(vcpu);
                // A model's threads are all one thread of the host.
                if bind && !cfg!(all(test, shuttle)) {
                    let mut only = CpuSet::new();
                    only.set(self.slots[slot.index()].cpu);
                    // The CPU was checked when the domain was configured; should it have gone offline, the vCPU runs elsewhere.
                    let _ = rustix::thread::sched_setaffinity(Pid::from_raw(record.thread().0), &only);
                }
                record.grant(slot);
            }
            // The thread's own slot, at an exit after which it looks at the stamp.
            Act::Kick(thread) if looks == Some(thread) => {}
            Act::Kick(thread) => kick::send(thread),
        }
    }

    /// Adds to the ledger's account of a vCPU what only its thread knows. What it was on a slot for and did not run was a
    /// nap, or the way to the slot, which counts as waiting.
    fn complete(&self, mut account: Account, vcpu: VcpuId, now: Time) -> Account {
        let record = self.records.of(vcpu);
        let (run, napped) = record.times(now);
        let napped = napped.min(account.run);
        let run = run.min(account.run - napped);
        account.wait += account.run - napped - run;
        account.idle += napped;
        account.run = run;
        record.counts.read().enter(&mut account, |outcomes| &mut outcomes.alone);
        account
    }

    /// Removes a vCPU the policy has let go of. Gives its last account, and what is to be dropped outside the lock.
    fn forget(&self, core: &mut Core, vcpu: VcpuId, now: Time) -> (Account, Option<Entry>) {
        let record = self.records.of(vcpu);
        record.events.retire();
        let last = self.complete(core.ledger.close(vcpu), vcpu, now);
        core.ended = core.ended.plus(record.counts.read());
        core.numbers.give_back(vcpu);
        (last, core.vcpus[vcpu.index()].take())
    }
}
