//! Executors: one thread per pCPU, bound to it, runs whichever vCPU the policy picks.
//!
//! A switch is a return from one vCPU and the start of another on the same thread: no hand-over between threads, no
//! change of affinity. It needs guests whose every wait is an exit, and a kernel that lets a vCPU go from thread to
//! thread freely (Linux 6.13 or newer).
//!
//! # Protocol of a slot
//! 1. The executor runs its vCPU. An exit that leaves the vCPU runnable goes straight back while the slot is not wanted,
//!    and so does a yield while nobody waits: one load each, no lock. This is rump's fast path: the vCPU that just left
//!    is the one to run.
//! 2. Else the executor *asks*: it acknowledges the stamp on its slot, then takes the lock, wakes what is due, tells the
//!    policy why the vCPU stopped, and does what it decides. In this order, a stamp set after the policy has answered
//!    makes it ask again.
//! 3. Others that put somebody in the queue stamp the slot and, if theirs is the first stamp, kick its thread; not so
//!    the executor itself, whose vCPU woke somebody by its exit: it looks at the stamp next. An idle executor is woken
//!    instead.
//!
//! How a vCPU that blocks and an event for it meet: see `events.rs` beside this file. The lock is never held across a system
//! call, nor while a vCPU is dropped.
//!
//! Here is what all threads share, and what others ask of a domain; `executors/thread.rs` is the life of an executor.

mod alarm;
mod thread;

use super::counts::{Counts, Tally};
use super::evacuate::{Evacuate, Evacuated, Evacuee};
use super::events::{Events, Found};
use super::looks::Looks;
use super::numbers::Numbers;
use super::parker::Parker;
use super::{Attributes, Class, Domain, DomainError, Totals, kick};
use crate::deadlines::Deadlines;
use crate::histogram::Histogram;
use crate::ledger::{self, Account, Ledger, Seen, Trace};
use crate::lock::{Caller, LockRules, QueueLock};
use crate::policy::Policy;
use crate::slot::SlotWord;
use crate::sync::{AtomicBool, Mutex, mpsc, thread::JoinHandle};
use crate::time::monotonic;
use crate::{Slot, Time, Vcpu, VcpuId};
use alarm::Watch;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// Most vCPUs of a domain.
pub const MAX_VCPUS: usize = if cfg!(all(test, shuttle)) { 16 } else { 1 << 17 };
/// Deadlines, and vCPUs held back, that are handled in one go, so that the lock is held for a bounded time; the rest follows at once.
const DUE_AT_ONCE: usize = 8;

/// A domain with a policy and an executor for each pCPU.
#[derive(Debug)]
pub struct Executors {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What can be switched on and off, to measure what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches {
    /// A vCPU that is seen spinning at a kick yields, and is looked at earlier from then on.
    pub spin_detection: bool,
}

impl Default for Switches {
    fn default() -> Self {
        Self { spin_detection: true }
    }
}

struct Shared {
    core: QueueLock<Core>,
    trace: Arc<Trace>,
    slots: Box<[SlotShared]>,
    events: Box<[Events]>,
    /// Somebody is queued. Written under the lock; read without, where being late only means one more exit.
    waiters: AtomicBool,
    keeps_slot_over_exits: bool,
    told_of_lone_yields: bool,
    detects_spinning: bool,
    tells_presence: bool,
    ending: AtomicBool,
}

/// What others may see of a slot.
#[derive(Debug, Default)]
struct SlotShared {
    word: SlotWord,
    parker: Parker,
    thread: OnceLock<kick::ThreadId>,
    counts: Counts,
}

/// What the lock guards.
struct Core {
    ledger: Ledger,
    vcpus: Vec<Option<Entry>>,
    numbers: Numbers,
    deadlines: Box<[Deadlines]>,
    watch: Watch,
}

struct Entry {
    /// What its executor is when it asks.
    caller: Caller,
    /// Here while the vCPU is not on a slot.
    vcpu: Option<Box<dyn Vcpu>>,
    on: Option<Slot>,
    /// The slot that watches its deadline.
    deadline: Option<Slot>,
    retiring: bool,
    looks: Looks,
    /// What was counted of it up to when it was last put on a slot, and that slot's counts then.
    counted: Tally,
    counts_before: Tally,
}

/// A vCPU that the domain has let go of.
struct Gone {
    vcpu: Box<dyn Vcpu>,
    last: Account,
}

impl Gone {
    fn give_back(self) {
        self.vcpu.retired(&self.last);
    }
}

/// Something to do once the lock is free.
enum Act {
    /// The slot has to ask.
    Ask(Slot),
    /// The idle executor of the slot has to look.
    Rouse(Slot),
    /// The executor of the slot has to look, or the slot has to ask.
    Look(Slot),
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl Executors {
    /// A domain on these host CPUs, whose slots they are in this order. The rules are those of its one lock.
    pub fn new(cpus: &[usize], policy: Box<dyn Policy>, rules: LockRules, switches: Switches) -> io::Result<Self> {
        let keeps_slot_over_exits = policy.keeps_slot_over_exits();
        let told_of_lone_yields = policy.is_told_of_lone_yields();
        let tells_presence = policy.tells_presence();
        let core = Core {
            ledger: Ledger::new(policy, cpus.len(), ledger::KEPT),
            vcpus: Vec::new(),
            numbers: Numbers::default(),
            deadlines: cpus.iter().map(|_| Deadlines::default()).collect(),
            watch: Watch::default(),
        };
        let trace = core.ledger.trace();
        let shared = Arc::new(Shared {
            core: QueueLock::new(core, rules),
            trace,
            slots: cpus.iter().map(|_| SlotShared::default()).collect(),
            events: (0..MAX_VCPUS).map(|_| Events::default()).collect(),
            waiters: AtomicBool::new(false),
            keeps_slot_over_exits,
            told_of_lone_yields,
            detects_spinning: switches.spin_detection,
            tells_presence,
            ending: AtomicBool::new(false),
        });
        let domain = Self { shared, threads: Mutex::default() };
        for (slot, &cpu) in cpus.iter().enumerate() {
            domain.start(Slot(slot as u16), cpu)?;
        }
        Ok(domain)
    }

    fn start(&self, slot: Slot, cpu: usize) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let (ready, started) = mpsc::sync_channel(1);
        let thread = crate::sync::thread::Builder::new()
            .name(format!("pcpu {cpu}"))
            .stack_size(super::STACK_BYTES)
            .spawn(move || thread::execute(&shared, slot, cpu, &ready))?;
        self.threads.lock().push(thread);
        started.recv().unwrap_or_else(|_| Err(io::Error::other("an executor ended while it started")))
    }
}

impl Drop for Executors {
    fn drop(&mut self) {
        self.halt();
    }
}

impl Evacuate for Executors {
    fn population(&self) -> usize {
        self.shared.core.lock().vcpus.iter().flatten().count()
    }

    fn halt(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        if threads.is_empty() {
            return;
        }
        self.shared.ending.store(true, Ordering::SeqCst);
        for slot in &self.shared.slots {
            slot.word.want();
            slot.parker.wake();
            if let Some(thread) = slot.thread.get() {
                kick::send(*thread);
            }
        }
        for thread in threads {
            // A panic there was reported by the panic hook; there is nothing left to do about it.
            let _ = thread.join();
        }
    }

    fn evacuate(&self) -> Evacuated {
        let mut core = self.shared.core.lock();
        let now = monotonic();
        let ids = (0..core.vcpus.len()).map(|index| VcpuId(index as u32));
        let vcpus = ids.filter_map(|id| self.shared.evict(&mut core, id, now)).collect();
        Evacuated { vcpus, numbers: std::mem::take(&mut core.numbers) }
    }

    fn missed(&self, vcpu: VcpuId) -> bool {
        self.shared.events[vcpu.index()].missed()
    }
}

impl Domain for Executors {
    fn add(&self, vcpu: Box<dyn Vcpu>, attributes: Attributes) -> Result<VcpuId, DomainError> {
        let mut core = self.shared.core.lock();
        let id = core.numbers.take(MAX_VCPUS).ok_or(DomainError::Full(MAX_VCPUS))?;
        if id.index() == core.vcpus.len() {
            core.vcpus.push(None);
            core.deadlines.iter_mut().for_each(|d| d.admit(id));
        }
        core.ledger.add(id, attributes, monotonic());
        let caller = if attributes.class == Class::Rt { Caller::Rt } else { Caller::Normal };
        core.vcpus[id.index()] = Some(Entry {
            caller,
            vcpu: Some(vcpu),
            on: None,
            deadline: None,
            retiring: false,
            looks: Looks::default(),
            counted: Tally::default(),
            counts_before: Tally::default(),
        });
        self.shared.events[id.index()].admit();
        Ok(id)
    }

    fn wake(&self, vcpu: VcpuId) {
        if self.shared.events.get(vcpu.index()).map(Events::signal) != Some(Found::Blocked) {
            return;
        }
        let acts = {
            let mut core = self.shared.core.lock();
            let act = self.shared.unblock(&mut core, vcpu, monotonic());
            self.shared.publish(&core);
            [act, self.shared.tell_watcher(&mut core)]
        };
        acts.into_iter().flatten().for_each(|act| self.shared.perform(act, Some(kick::this_thread())));
    }

    fn retire(&self, vcpu: VcpuId) {
        let gone = {
            let mut core = self.shared.core.lock();
            let Some(Some(entry)) = core.vcpus.get_mut(vcpu.index()) else { return };
            match entry.on {
                Some(slot) => {
                    entry.retiring = true;
                    Err(slot)
                }
                None => {
                    core.ledger.remove(vcpu, monotonic());
                    let gone = self.shared.forget(&mut core, vcpu);
                    self.shared.publish(&core);
                    Ok(gone)
                }
            }
        };
        match gone {
            Ok(gone) => gone.into_iter().for_each(Gone::give_back),
            Err(slot) => self.shared.perform(Act::Ask(slot), Some(kick::this_thread())),
        }
    }

    fn account(&self, vcpu: VcpuId) -> Option<Account> {
        let core = self.shared.core.lock();
        let entry = core.vcpus.get(vcpu.index())?.as_ref()?;
        let mut account = core.ledger.account_of(vcpu, monotonic())?;
        let on_slot = entry.on.map(|slot| self.shared.slots[slot.index()].counts.read().since(entry.counts_before));
        entry.counted.plus(on_slot.unwrap_or_default()).enter(&mut account, |outcomes| &mut outcomes.alone);
        Some(account)
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
        self.shared.slots.iter().filter_map(|slot| slot.thread.get().copied()).collect()
    }

    fn totals(&self) -> Totals {
        let core = self.shared.core.lock();
        let counted = self.shared.slots.iter().map(|slot| slot.counts.read());
        counted.fold(Tally::default(), Tally::plus).totals(core.ledger.counts(), core.ledger.yield_counts())
    }
}

impl Shared {
    /// Completes a wake whose event found the vCPU blocked, unless somebody else has.
    fn unblock(&self, core: &mut Core, vcpu: VcpuId, now: Time) -> Option<Act> {
        if !self.events[vcpu.index()].unblock() {
            return None;
        }
        let entry = core.vcpus[vcpu.index()].as_mut()?;
        if let Some(slot) = entry.deadline.take() {
            core.deadlines[slot.index()].remove(vcpu);
        }
        alarm::placed(core.ledger.wake(vcpu, now))
    }

    /// `looks` looks at its own slot's word next, if it is an executor at all: it is in the middle of a vCPU's exit.
    fn perform(&self, act: Act, looks: Option<kick::ThreadId>) {
        match act {
            Act::Rouse(slot) => {
                self.slots[slot.index()].parker.wake();
            }
            Act::Ask(slot) => self.demand(slot, looks),
            Act::Look(slot) => {
                self.demand(slot, looks);
                self.slots[slot.index()].parker.wake();
            }
        }
    }

    /// Makes a busy slot ask.
    fn demand(&self, slot: Slot, looks: Option<kick::ThreadId>) {
        let slot = &self.slots[slot.index()];
        if slot.word.want()
            && let Some(thread) = slot.thread.get()
            && looks != Some(*thread)
        {
            kick::send(*thread);
        }
    }

    fn publish(&self, core: &Core) {
        let waiting = core.ledger.waiting() > 0;
        if self.waiters.load(Ordering::Relaxed) != waiting {
            self.waiters.store(waiting, Ordering::Relaxed);
        }
    }

    /// Takes a vCPU out as it is. The executors have ended.
    fn evict(&self, core: &mut Core, id: VcpuId, now: Time) -> Option<Evacuee> {
        let entry = core.vcpus[id.index()].take()?;
        let leaving = self.events[id.index()].leave();
        let deadline = entry.deadline.map_or(Time::NEVER, |slot| core.deadlines[slot.index()].of(id));
        let mut account = core.ledger.account_of(id, now)?;
        entry.counted.enter(&mut account, |outcomes| &mut outcomes.alone);
        Some(Evacuee {
            id,
            vcpu: entry.vcpu.expect("executors put their vCPUs down when they end"),
            attributes: core.ledger.attributes_of(id)?,
            rests: leaving.rests.then_some(deadline),
            event: leaving.event,
            retiring: entry.retiring,
            account,
            at: now,
        })
    }

    /// Removes a vCPU the policy has let go of.
    fn forget(&self, core: &mut Core, vcpu: VcpuId) -> Option<Gone> {
        self.events[vcpu.index()].retire();
        let entry = core.vcpus[vcpu.index()].take()?;
        if let Some(slot) = entry.deadline {
            core.deadlines[slot.index()].remove(vcpu);
        }
        core.numbers.give_back(vcpu);
        let mut last = core.ledger.close(vcpu);
        entry.counted.enter(&mut last, |outcomes| &mut outcomes.alone);
        Some(Gone { vcpu: entry.vcpu?, last })
    }
}
